/* SPDX-License-Identifier: GPL-3.0-or-later
 * A little of each family; every line says what was seen, and the test compares them all. */
#include <stdio.h>
#include <windows.h>

static HANDLE event;
static CRITICAL_SECTION lock;
static volatile int counter;
static __thread int local = 5;

static DWORD WINAPI worker(void *number)
{
    local += (int)(INT_PTR)number;
    if (WaitForSingleObject(event, 10000) != WAIT_OBJECT_0) return 99;
    for (int i = 0; i < 10000; i++) {
        EnterCriticalSection(&lock);
        counter++;
        LeaveCriticalSection(&lock);
    }
    return 100 + local;
}

static LONG CALLBACK handler(EXCEPTION_POINTERS *pointers)
{
    if (pointers->ExceptionRecord->ExceptionCode != EXCEPTION_ACCESS_VIOLATION) return EXCEPTION_CONTINUE_SEARCH;
    printf("exception address %p\n", (void *)pointers->ExceptionRecord->ExceptionInformation[1]);
    pointers->ContextRecord->Rip += 2;
    return EXCEPTION_CONTINUE_EXECUTION;
}

static int recurse(int depth)
{
    volatile char room[4096];
    room[0] = (char)depth;
    return depth == 0 ? 0 : recurse(depth - 1) + (room[0] == (char)depth);
}

static VOID CALLBACK apc(ULONG_PTR number) { printf("apc %d\n", (int)number); }

static void files(void)
{
    DWORD done;
    char bytes[64] = { 0 };
    HANDLE file = CreateFileA("C:\\temp\\Test.txt", GENERIC_READ | GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    WriteFile(file, "hello file", 10, &done, NULL);
    SetFilePointer(file, 6, NULL, FILE_BEGIN);
    ReadFile(file, bytes, sizeof bytes - 1, &done, NULL);
    printf("read %lu %s size %lu\n", done, bytes, GetFileSize(file, NULL));
    HANDLE mapping = CreateFileMappingA(file, NULL, PAGE_READWRITE, 0, 0, NULL);
    char *view = MapViewOfFile(mapping, FILE_MAP_WRITE, 0, 0, 0);
    view[0] = 'J';
    UnmapViewOfFile(view);
    CloseHandle(mapping);
    CloseHandle(file);
    file = CreateFileA("c:\\TEMP\\tEST.TXT", GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL);
    ReadFile(file, bytes, 5, &done, NULL);
    bytes[5] = 0;
    CloseHandle(file);
    printf("any case %s\n", bytes);
    printf("moved %d\n", MoveFileA("C:\\temp\\Test.txt", "C:\\temp\\moved.txt"));
    WIN32_FIND_DATAA found;
    HANDLE find = FindFirstFileA("C:\\temp\\*.txt", &found);
    printf("found %s\n", find == INVALID_HANDLE_VALUE ? "nothing" : found.cFileName);
    FindClose(find);
    printf("deleted %d\n", DeleteFileA("C:\\temp\\moved.txt"));
    printf("gone %d\n", GetFileAttributesA("C:\\temp\\moved.txt") == INVALID_FILE_ATTRIBUTES && GetLastError() == ERROR_FILE_NOT_FOUND);
}

static void registry(void)
{
    HKEY key;
    char bytes[16];
    DWORD size = sizeof bytes;
    RegCreateKeyExA(HKEY_CURRENT_USER, "Software\\Test", 0, NULL, 0, KEY_ALL_ACCESS, NULL, &key, NULL);
    RegSetValueExA(key, "Value", 0, REG_SZ, (const BYTE *)"text", 5);
    LONG error = RegQueryValueExA(key, "vALUE", NULL, NULL, (BYTE *)bytes, &size);
    printf("registry %ld %s\n", error, bytes);
    RegCloseKey(key);
}

static void child(void)
{
    char line[] = "\"C:\\temp\\hello.exe\" \"from the parent\"";
    STARTUPINFOA startup = { sizeof startup };
    PROCESS_INFORMATION process;
    DWORD code = 0;
    fflush(stdout);
    if (!CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &process)) {
        printf("no child: %lu\n", GetLastError());
        return;
    }
    WaitForSingleObject(process.hProcess, 20000);
    GetExitCodeProcess(process.hProcess, &code);
    printf("child %lu\n", code);
}

int main(void)
{
    HANDLE threads[4];
    DWORD code;
    InitializeCriticalSection(&lock);
    event = CreateEventA(NULL, TRUE, FALSE, NULL);
    for (int i = 0; i < 4; i++) threads[i] = CreateThread(NULL, 0, worker, (void *)(INT_PTR)i, 0, NULL);
    SetEvent(event);
    printf("wait %lx counter", WaitForMultipleObjects(4, threads, TRUE, 20000));
    printf(" %d local %d codes", counter, local);
    for (int i = 0; i < 4; i++) {
        GetExitCodeThread(threads[i], &code);
        printf(" %lu", code);
    }
    printf("\n");
    void *veh = AddVectoredExceptionHandler(1, handler);
    __asm__ volatile("xor %%eax, %%eax\n mov (%%rax), %%eax" ::: "rax");
    RemoveVectoredExceptionHandler(veh);
    printf("stack %d\n", recurse(150));
    QueueUserAPC(apc, GetCurrentThread(), 9);
    printf("sleep %lx\n", SleepEx(10, TRUE));
    HANDLE semaphore = CreateSemaphoreA(NULL, 0, 1, NULL);
    printf("timeout %lx\n", WaitForSingleObject(semaphore, 20));
    files();
    registry();
    child();
    ExitProcess(33);
}

/* SPDX-License-Identifier: GPL-3.0-or-later
 * A program without imports. It finds the numbers of the services it needs in its command line: NAME=NUMBER words,
 * written by the test. It writes to its standard output and ends with a 32-bit status. */
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;

__attribute__((naked)) static u64 service(u32 number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i)
{
    /* The number comes first: shift each argument down by one, the layout of an NT stub's caller. */
    __asm__("sub $0x58, %rsp\n"
            "mov %ecx, %eax\n"
            "mov %rdx, %r10\n"
            "mov %r8, %rdx\n"
            "mov %r9, %r8\n"
            "mov 0x80(%rsp), %r9\n"
            "mov 0x88(%rsp), %rcx\n mov %rcx, 0x20(%rsp)\n"
            "mov 0x90(%rsp), %rcx\n mov %rcx, 0x28(%rsp)\n"
            "mov 0x98(%rsp), %rcx\n mov %rcx, 0x30(%rsp)\n"
            "mov 0xa0(%rsp), %rcx\n mov %rcx, 0x38(%rsp)\n"
            "mov 0xa8(%rsp), %rcx\n mov %rcx, 0x40(%rsp)\n"
            "call 1f\n"
            "add $0x58, %rsp\n"
            "ret\n"
            "1: syscall\n"
            "ret\n");
}

static u32 number_of(const u16 *line, u32 units, const char *name)
{
    for (u32 at = 0; at < units; at++) {
        u32 k = 0;
        while (name[k] && at + k < units && line[at + k] == (u16)name[k]) k++;
        if (name[k] || at + k >= units || line[at + k] != '=') continue;
        u32 value = 0;
        for (k++; at + k < units && line[at + k] >= '0' && line[at + k] <= '9'; k++) value = value * 10 + line[at + k] - '0';
        return value;
    }
    return 0xffff;
}

int start(char *peb)
{
    char *parameters = *(char **)(peb + 0x20);
    const u16 *line = *(const u16 **)(parameters + 0x78);
    u32 units = *(u16 *)(parameters + 0x70) / 2;
    u64 output = *(u64 *)(parameters + 0x28);
    u32 write = number_of(line, units, "NtWriteFile");
    u64 status_block[2];
    static const char text[] = "native\n";
    service(write, output, 0, 0, 0, (u64)status_block, (u64)text, sizeof text - 1, 0, 0);

    /* Memory: reserve and commit a page, touch it, ask for a service that does not exist. */
    u64 base = 0, size = 0x1000;
    u32 status = service(number_of(line, units, "NtAllocateVirtualMemory"), -1, (u64)&base, 0, (u64)&size, 0x3000, 4, 0, 0, 0);
    if (status) service(number_of(line, units, "NtTerminateProcess"), -1, status, 0, 0, 0, 0, 0, 0, 0);
    *(volatile u64 *)base = 42;
    status = service(0xffe, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    service(number_of(line, units, "NtTerminateProcess"), -1, status == 0xc0000002 || status == 0xc000001c ? 0xc0ffee42 : 1, 0, 0, 0, 0, 0, 0, 0);
    return 0;
}

/* SPDX-License-Identifier: GPL-3.0-or-later
 * Arguments, both output streams, the environment, the module's name, and an exit code. */
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

int main(int count, char **arguments)
{
    char name[MAX_PATH];
    for (int i = 1; i < count; i++) printf("argument [%s]\n", arguments[i]);
    GetModuleFileNameA(NULL, name, sizeof name);
    printf("module %s\n", name);
    printf("variable %s\n", getenv("TEST_VARIABLE") ? getenv("TEST_VARIABLE") : "(none)");
    fprintf(stderr, "error %.2f\n", 3.25);
    return 7;
}

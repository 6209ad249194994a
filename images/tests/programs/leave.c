// SPDX-License-Identifier: GPL-2.0-only
/*
 * leave kexec | crash COMMAND_LINE: loads the kernel of /boot/Image, with the
 * archive /boot/guest.cpio, and starts it at once (kexec) or leaves that to a
 * panic (crash).
 */

#include <err.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>
#include "kexec.h"

int main(int argc, char **argv)
{
	enum kexec_kind kind;

	if (argc != 3)
		errx(2, "usage: leave kexec | crash COMMAND_LINE");
	kind = strcmp(argv[1], "crash") ? NEXT_KERNEL : CRASH_KERNEL;
	load_kernel(kind, read_file("/boot/guest.cpio"), argv[2]);
	if (kind == CRASH_KERNEL)
		return 0;
	reboot(RB_KEXEC);
	err(1, "reboot");
}

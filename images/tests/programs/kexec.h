/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loads the kernel of /boot/Image by kexec_load(2); kexec-tools is not in these
 * images. A failure ends the program.
 */

#ifndef __TEST_KEXEC_H
#define __TEST_KEXEC_H

#include <stddef.h>

#define MIB		(1UL << 20)

/* A file in memory; there is room for 64 MiB when read_file() has read one. */
struct blob {
	unsigned char *data;
	size_t size;
};

enum kexec_kind {
	NEXT_KERNEL,	/* reboot(RB_KEXEC) starts it */
	CRASH_KERNEL,	/* a panic starts it; needs crashkernel=SIZE */
};

struct blob read_file(const char *name);

/* Appends bytes, and zeroes up to a multiple of 4. */
void append(struct blob *blob, const void *data, size_t size);

void load_kernel(enum kexec_kind kind, struct blob initrd, const char *command_line);

#endif

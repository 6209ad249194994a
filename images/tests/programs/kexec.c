// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads the kernel of /boot/Image by kexec_load(2).
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kexec.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "kexec.h"

#define IMAGE_OFFSET	0UL
#define INITRD_OFFSET	(96 * MIB)
#define FDT_OFFSET	(112 * MIB)
#define ARCH_RISCV	(243UL << 16)

struct blob read_file(const char *name)
{
	struct blob blob = { malloc(64 * MIB), 0 };
	ssize_t n;
	int file = open(name, O_RDONLY);

	if (!blob.data || file < 0)
		err(1, "%s", name);
	while ((n = read(file, blob.data + blob.size, 64 * MIB - blob.size)) > 0)
		blob.size += n;
	close(file);
	return blob;
}

void append(struct blob *blob, const void *data, size_t size)
{
	memcpy(blob->data + blob->size, data, size);
	blob->size += size;
	while (blob->size % 4)
		blob->data[blob->size++] = 0;
}

struct property {
	const char *name;
	const void *value;
	uint32_t size;
};

/*
 * The device tree with properties at the beginning of /chosen, where they come
 * before older ones of the same name. Its header is at most 16 words: total size,
 * offsets of structure and strings are words 1 to 3, their sizes 9 and 8.
 */
static struct blob make_fdt(const struct property *properties, int count)
{
	struct blob old = read_file("/sys/firmware/fdt");
	struct blob new = { malloc(old.size + 65536), 0 };
	uint32_t *header = (uint32_t *)new.data, word[3];
	uint32_t structure, strings, length, at;
	int i;

	memcpy(new.data, old.data, old.size);
	new.size = (old.size + 7) & ~7UL;
	structure = ntohl(header[2]);
	strings = ntohl(header[3]);
	length = ntohl(header[8]);

	header[2] = htonl(new.size);
	for (at = 0; memcmp(old.data + structure + at, "\0\0\0\1chosen\0", 11);
	     at += 4)
		if (at >= ntohl(header[9]))
			errx(1, "the device tree has no /chosen");
	append(&new, old.data + structure, at + 12);
	for (i = 0; i < count; i++) {
		word[0] = htonl(3);
		word[1] = htonl(properties[i].size);
		word[2] = htonl(length);
		append(&new, word, sizeof(word));
		append(&new, properties[i].value, properties[i].size);
		length += strlen(properties[i].name) + 1;
	}
	append(&new, old.data + structure + at + 12,
	       ntohl(header[9]) - at - 12);
	header[9] = htonl(new.size - ntohl(header[2]));

	header[3] = htonl(new.size);
	memcpy(new.data + new.size, old.data + strings, ntohl(header[8]));
	new.size += ntohl(header[8]);
	for (i = 0; i < count; i++) {
		length = strlen(properties[i].name) + 1;
		memcpy(new.data + new.size, properties[i].name, length);
		new.size += length;
	}
	header[8] = htonl(new.size - ntohl(header[3]));
	header[1] = htonl(new.size);
	return new;
}

/* Where the memory of that name in /proc/iomem begins, and how long it is */
static void find_memory(const char *name, uint64_t *base, uint64_t *size)
{
	FILE *file = fopen("/proc/iomem", "r");
	unsigned long first, last;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, name) &&
		    sscanf(line, " %lx-%lx", &first, &last) == 2) {
			*base = first;
			*size = last - first + 1;
			fclose(file);
			return;
		}
	errx(1, "/proc/iomem names no memory%s", name);
}

static struct kexec_segment segment(struct blob blob, uint64_t at, size_t memory)
{
	struct kexec_segment segment = {
		.buf = blob.data,
		.bufsz = blob.size,
		.mem = (void *)at,
		.memsz = ((memory ? memory : blob.size) + 4095) & ~4095UL,
	};

	return segment;
}

void load_kernel(enum kexec_kind kind, struct blob initrd, const char *command_line)
{
	struct blob image = read_file("/boot/Image");
	struct kexec_segment segments[3];
	uint64_t base, size, range[2], where[2];
	int crash = kind == CRASH_KERNEL;

	find_memory(crash ? ": Crash kernel" : ": System RAM", &base, &size);
	/* A kernel begins at a multiple of 2 MiB. */
	base = (base + 2 * MIB - 1) & ~(2 * MIB - 1);
	range[0] = __builtin_bswap64(base);
	range[1] = __builtin_bswap64(size);
	where[0] = __builtin_bswap64(base + INITRD_OFFSET);
	where[1] = __builtin_bswap64(base + INITRD_OFFSET + initrd.size);
	struct property properties[] = {
		{ "bootargs", command_line, strlen(command_line) + 1 },
		{ "linux,initrd-start", &where[0], sizeof(where[0]) },
		{ "linux,initrd-end", &where[1], sizeof(where[1]) },
		/* Memory of the kernel that crashed is left alone. */
		{ "linux,usable-memory-range", range, sizeof(range) },
	};

	/* Offset 16 of the header: memory that the kernel needs for itself */
	segments[0] = segment(image, base + IMAGE_OFFSET,
			      *(uint64_t *)(image.data + 16));
	segments[1] = segment(initrd, base + INITRD_OFFSET, 0);
	segments[2] = segment(make_fdt(properties, crash ? 4 : 3), base + FDT_OFFSET, 0);
	if (syscall(SYS_kexec_load, base + IMAGE_OFFSET, 3, segments,
		    ARCH_RISCV | (crash ? KEXEC_ON_CRASH : 0)))
		err(1, "kexec_load");
}

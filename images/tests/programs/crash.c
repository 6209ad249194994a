// SPDX-License-Identifier: GPL-2.0-only
/*
 * A crash kernel comes up although KVM has left a vCPU attached and its timer
 * armed on the hart that panicked.
 *
 * Needs crashkernel=SIZE. Loads the kernel of /boot/Image with a device tree that
 * lets it use nothing but the memory set aside, and with this very program as its
 * first one; then lets a module panic while a guest runs whose timer expires
 * soon after. As process 1 of the crash kernel, prints a result and powers off.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kexec.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>
#include "../../../linux/tests/vm.h"

#define MIB		(1UL << 20)
#define IMAGE_OFFSET	0UL
#define INITRD_OFFSET	(96 * MIB)
#define FDT_OFFSET	(112 * MIB)
#define ARCH_RISCV	(243UL << 16)
#define TIMER(name)	REG(KVM_REG_RISCV_TIMER, KVM_REG_RISCV_TIMER_REG(name))
/* Ticks until the guest's timer expires: while the crash kernel comes up */
#define EXPIRES		2000000
#define COMMAND_LINE	"console=ttyS0 quiet cryptomgr.notests nr_cpus=1 panic=-1"

struct blob {
	unsigned char *data;
	size_t size;
};

static struct blob read_file(const char *name)
{
	struct blob blob = { malloc(64 * MIB), 0 };
	ssize_t n;
	int file = open(name, O_RDONLY);

	if (!blob.data || file < 0)
		fatal(name);
	while ((n = read(file, blob.data + blob.size, 64 * MIB - blob.size)) > 0)
		blob.size += n;
	close(file);
	return blob;
}

static void append(struct blob *blob, const void *data, size_t size)
{
	memcpy(blob->data + blob->size, data, size);
	blob->size += size;
	while (blob->size % 4)
		blob->data[blob->size++] = 0;
}

static void append_file(struct blob *cpio, const char *name, struct blob file)
{
	char header[128];
	size_t length = strlen(name) + 1;

	snprintf(header, sizeof(header),
		 "070701%08x%08x%08x%08x%08x%08x%08zx%08x%08x%08x%08x%08zx%08x",
		 1, S_IFREG | 0755, 0, 0, 1, 0, file.size, 0, 0, 0, 0, length, 0);
	memcpy(header + 110, name, length);
	append(cpio, header, 110 + length);
	append(cpio, file.data, file.size);
}

/* An archive with this program as /init */
static struct blob make_initrd(void)
{
	struct blob cpio = { malloc(16 * MIB), 0 }, end = { NULL, 0 };

	append_file(&cpio, "init", read_file("/proc/self/exe"));
	append_file(&cpio, "TRAILER!!!", end);
	return cpio;
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
			fatal("find /chosen");
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

static void crash_memory(uint64_t *base, uint64_t *size)
{
	FILE *file = fopen("/proc/iomem", "r");
	unsigned long first, last;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, ": Crash kernel") &&
		    sscanf(line, " %lx-%lx", &first, &last) == 2) {
			*base = first;
			*size = last - first + 1;
			fclose(file);
			return;
		}
	errno = ENOMEM;
	fatal("find the memory for a crash kernel (crashkernel=192M)");
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

static void load_crash_kernel(void)
{
	struct blob image = read_file("/boot/Image");
	struct blob initrd = make_initrd();
	struct kexec_segment segments[3];
	uint64_t base, size, range[2], where[2];

	crash_memory(&base, &size);
	range[0] = __builtin_bswap64(base);
	range[1] = __builtin_bswap64(size);
	where[0] = __builtin_bswap64(base + INITRD_OFFSET);
	where[1] = __builtin_bswap64(base + INITRD_OFFSET + initrd.size);
	struct property properties[] = {
		{ "bootargs", COMMAND_LINE, sizeof(COMMAND_LINE) },
		{ "linux,usable-memory-range", range, sizeof(range) },
		{ "linux,initrd-start", &where[0], sizeof(where[0]) },
		{ "linux,initrd-end", &where[1], sizeof(where[1]) },
	};

	/* Offset 16 of the header: memory that the kernel needs for itself */
	segments[0] = segment(image, base + IMAGE_OFFSET,
			      *(uint64_t *)(image.data + 16));
	segments[1] = segment(initrd, base + INITRD_OFFSET, 0);
	segments[2] = segment(make_fdt(properties, 4), base + FDT_OFFSET, 0);
	if (syscall(SYS_kexec_load, base + IMAGE_OFFSET, 3, segments,
		    KEXEC_ON_CRASH | ARCH_RISCV))
		fatal("kexec_load");
}

/* A guest that does not wait, with a timer that runs */
static void start_guest(struct vm *vm)
{
	struct vcpu *vcpu = &vm->vcpus[0];

	create_domain(vm, 1);
	vcpu->cpu = 0;
	vcpu->shared->hold = 1;
	if (set_reg(vcpu, TIMER(compare), get_reg(vcpu, TIMER(time)) + EXPIRES) ||
	    set_reg(vcpu, TIMER(state), KVM_RISCV_TIMER_STATE_ON))
		fatal("set the guest's timer");
	irq_line(vm, 1, 1);
	start(vcpu);
	if (!reaches(&vcpu->shared->count[1], 1))
		fatal("interrupt the guest");
}

static void in_crash_kernel(void)
{
	/* Long enough for interrupts that nobody can handle */
	sleep(1);
	printf("@trapless result crash_kernel=up\n");
	fflush(stdout);
	tcdrain(1);
	usleep(50000);
	reboot(RB_POWER_OFF);
}

int main(void)
{
	static struct vm vm;
	int file;

	if (getpid() == 1)
		in_crash_kernel();

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	file = open("/tests/trapless_crash.ko", O_RDONLY | O_CLOEXEC);
	if (kvm < 0 || file < 0)
		fatal("open /dev/kvm and the module");
	load_crash_kernel();
	start_guest(&vm);
	printf("ok   the crash kernel is loaded, and a guest runs\n");
	fflush(stdout);
	if (syscall(SYS_finit_module, file, "", 0))
		fatal("load the module");
	sleep(10);
	printf("FAIL nothing crashed\n");
	return 1;
}

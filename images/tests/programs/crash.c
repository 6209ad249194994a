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
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>
#include "../../../linux/tests/vm.h"
#include "kexec.h"

#define TIMER(name)	REG(KVM_REG_RISCV_TIMER, KVM_REG_RISCV_TIMER_REG(name))
/* Ticks until the guest's timer expires: while the crash kernel comes up */
#define EXPIRES		2000000
#define COMMAND_LINE	"console=ttyS0 quiet cryptomgr.notests nr_cpus=1 panic=-1"

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
	load_kernel(CRASH_KERNEL, make_initrd(), COMMAND_LINE);
	start_guest(&vm);
	printf("ok   the crash kernel is loaded, and a guest runs\n");
	fflush(stdout);
	if (syscall(SYS_finit_module, file, "", 0))
		fatal("load the module");
	sleep(10);
	printf("FAIL nothing crashed\n");
	return 1;
}

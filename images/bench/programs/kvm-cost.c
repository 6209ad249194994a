// SPDX-License-Identifier: GPL-2.0-only
/*
 * kvm-cost NAME ROUNDS: what KVM costs a guest, without a VMM.
 *
 * NAME is hypercall, mmio, stimecmp or empty. Prints the markers of
 * images/init/trapless.sh around ROUNDS rounds of the guest, so that whoever reads
 * the console can time them; a few rounds before warm everything up.
 */

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>
#include <linux/kvm.h>

#define GUEST_BASE	0x80000000ULL
#define GUEST_SIZE	0x10000
/* Outside the guest's memory: every access is KVM_EXIT_MMIO */
#define CONTROL		0x10000000ULL
#define WARM_UP		2000

/* Code of the guest */
extern const char guest_begin[], guest_end[];

static const char * const names[] = { "hypercall", "mmio", "stimecmp", "empty" };

static void fatal(const char *what)
{
	printf("kvm-cost: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void set_reg(int vcpu, uint64_t reg, uint64_t value)
{
	struct kvm_one_reg one = {
		.id = KVM_REG_RISCV | KVM_REG_SIZE_U64 | KVM_REG_RISCV_CORE | reg,
		.addr = (uintptr_t)&value,
	};

	if (ioctl(vcpu, KVM_SET_ONE_REG, &one))
		fatal("KVM_SET_ONE_REG");
}

static void say(const char *what, const char *name, const char *rest)
{
	printf("@trapless %s host kvm-%s%s\n", what, name, rest);
	fflush(stdout);
	/* The console must be silent meanwhile */
	tcdrain(STDOUT_FILENO);
}

int main(int argc, char **argv)
{
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = GUEST_BASE,
		.memory_size = GUEST_SIZE,
	};
	struct kvm_mp_state state = { KVM_MP_STATE_RUNNABLE };
	uint64_t rounds, what = 0;
	struct kvm_run *run;
	int kvm, vm, vcpu, asked = 0;
	char *memory;

	while (argc == 3 && what < 4 && strcmp(argv[1], names[what]))
		what++;
	rounds = argc == 3 ? strtoull(argv[2], NULL, 0) : 0;
	if (what == 4 || rounds == 0) {
		printf("usage: kvm-cost hypercall|mmio|stimecmp|empty ROUNDS\n");
		return 2;
	}

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		fatal("open /dev/kvm");
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	memory = mmap(NULL, GUEST_SIZE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm < 0 || memory == MAP_FAILED)
		fatal("create a VM");
	memcpy(memory, guest_begin, guest_end - guest_begin);
	region.userspace_addr = (uintptr_t)memory;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		fatal("KVM_SET_USER_MEMORY_REGION");
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	run = mmap(NULL, ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
		   PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (vcpu < 0 || run == MAP_FAILED)
		fatal("create a vCPU");
	set_reg(vcpu, KVM_REG_RISCV_CORE_REG(regs.pc), GUEST_BASE);
	set_reg(vcpu, KVM_REG_RISCV_CORE_REG(regs.s0), CONTROL);
	set_reg(vcpu, KVM_REG_RISCV_CORE_REG(regs.s1), what);
	set_reg(vcpu, KVM_REG_RISCV_CORE_REG(mode), 1);
	if (ioctl(vcpu, KVM_SET_MP_STATE, &state))
		fatal("KVM_SET_MP_STATE");

	for (;;) {
		if (ioctl(vcpu, KVM_RUN, 0)) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			fatal("KVM_RUN");
		}
		if (run->exit_reason != KVM_EXIT_MMIO || run->mmio.is_write) {
			printf("kvm-cost: exit %u of the guest\n",
			       run->exit_reason);
			return 1;
		}
		if (run->mmio.phys_addr == CONTROL) {
			if (asked == 2)
				break;
			if (asked == 1)
				say("begin", argv[1], "");
			memcpy(run->mmio.data, asked ? &rounds :
			       &(uint64_t){ WARM_UP }, sizeof(rounds));
			asked++;
		}
	}
	say("end", argv[1], " status=0");
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "../include/uapi/linux/kvm_uctx.h"
#include "vm.h"

#define GUEST_BASE	0x80000000ULL
#define GUEST_SIZE	0x40000
#define SHARED_OFFSET	0x8000

/* Code of the guest */
extern const char guest_begin[], guest_end[];

int kvm, failures;

void fatal(const char *what)
{
	printf("FAIL %s: %s\n", what, strerror(errno));
	exit(1);
}

int attr(struct vm *vm, int op, uint32_t group, uint64_t attr,
		void *value)
{
	struct kvm_device_attr a = {
		.group = group,
		.attr = attr,
		.addr = (uintptr_t)value,
	};

	return ioctl(vm->dev, op, &a) ? -errno : 0;
}

int set64(struct vm *vm, uint32_t group, uint64_t index, uint64_t value)
{
	return attr(vm, KVM_SET_DEVICE_ATTR, group, index, &value);
}

int set32(struct vm *vm, uint32_t group, uint64_t index, uint32_t value)
{
	return attr(vm, KVM_SET_DEVICE_ATTR, group, index, &value);
}

uint64_t get64(struct vm *vm, uint32_t group, uint64_t index)
{
	uint64_t value = ~0ULL;
	int ret = attr(vm, KVM_GET_DEVICE_ATTR, group, index, &value);

	return ret ? (uint64_t)ret : value;
}

uint64_t vcpu_word(struct vm *vm, int vcpu, int word)
{
	return get64(vm, KVM_DEV_TRAPLESS_GRP_VCPU, (uint64_t)vcpu << 16 | word);
}

int set_reg(struct vcpu *vcpu, uint64_t id, uint64_t value)
{
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

	return ioctl(vcpu->fd, KVM_SET_ONE_REG, &reg);
}

uint64_t get_reg(struct vcpu *vcpu, uint64_t id)
{
	uint64_t value = 0;
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

	if (ioctl(vcpu->fd, KVM_GET_ONE_REG, &reg))
		fatal("KVM_GET_ONE_REG");
	return value;
}

/* Handlers of user contexts may interrupt the guest, where there are any */
static void agree(struct vm *vm)
{
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_RISCV_UCTX,
		.args[0] = KVM_CAP_RISCV_UCTX_INTERRUPT,
	};

	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_UCTX) > 0 &&
	    ioctl(vm->fd, KVM_ENABLE_CAP, &cap))
		fatal("let handlers interrupt a guest");
}

void native_wfi(struct vm *vm, int on)
{
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_RISCV_DISABLE_EXITS,
		.args[0] = on ? KVM_RISCV_DISABLE_EXITS_WFI : 0,
	};

	if (ioctl(vm->fd, KVM_ENABLE_CAP, &cap))
		fatal("let WFI of a guest wait on the hart");
}

static void make_vm(struct vm *vm, int nr_vcpus, int agrees)
{
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = GUEST_BASE,
		.memory_size = GUEST_SIZE,
	};
	int i, size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	memset(vm, 0, sizeof(*vm));
	vm->dev = -1;
	vm->nr_vcpus = nr_vcpus;
	vm->fd = ioctl(kvm, KVM_CREATE_VM, 0);
	vm->memory = mmap(NULL, GUEST_SIZE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm->fd < 0 || vm->memory == MAP_FAILED)
		fatal("create a VM");
	memcpy(vm->memory, guest_begin, guest_end - guest_begin);
	region.userspace_addr = (uintptr_t)vm->memory;
	if (ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region))
		fatal("KVM_SET_USER_MEMORY_REGION");
	if (agrees)
		agree(vm);

	for (i = 0; i < nr_vcpus; i++) {
		struct vcpu *vcpu = &vm->vcpus[i];
		struct kvm_mp_state state = { KVM_MP_STATE_RUNNABLE };
		uint64_t offset = SHARED_OFFSET + i * 0x1000;

		vcpu->fd = ioctl(vm->fd, KVM_CREATE_VCPU, i);
		vcpu->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
				 vcpu->fd, 0);
		if (vcpu->fd < 0 || vcpu->run == MAP_FAILED)
			fatal("create a vCPU");
		vcpu->cpu = -1;
		vcpu->shared = (struct shared *)(vm->memory + offset);
		vcpu->shared->sie = SSIE | SEIE;
		if (set_reg(vcpu, CORE(regs.pc), GUEST_BASE) ||
		    set_reg(vcpu, CORE(regs.a0), i) ||
		    set_reg(vcpu, CORE(regs.a1), GUEST_BASE + offset) ||
		    set_reg(vcpu, CORE(mode), 1) ||
		    ioctl(vcpu->fd, KVM_SET_MP_STATE, &state))
			fatal("set up a vCPU");
	}
}

void create_vm(struct vm *vm, int nr_vcpus)
{
	make_vm(vm, nr_vcpus, 1);
}

int create_device(struct vm *vm)
{
	struct kvm_create_device cd = { .type = KVM_DEV_TYPE_RISCV_TRAPLESS };

	if (ioctl(vm->fd, KVM_CREATE_DEVICE, &cd))
		return -errno;
	vm->dev = cd.fd;
	return 0;
}

static void make_domain(struct vm *vm, int sources)
{
	int i;

	if (create_device(vm) ||
	    set32(vm, KVM_DEV_TRAPLESS_GRP_CONFIG,
		  KVM_DEV_TRAPLESS_CONFIG_NR_SOURCES, sources) ||
	    attr(vm, KVM_SET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_CTRL,
		 KVM_DEV_TRAPLESS_CTRL_INIT, NULL))
		fatal("set up the device");
	for (i = 1; i <= sources; i++)
		if (set64(vm, KVM_DEV_TRAPLESS_GRP_SOURCE, i, PRIO(1)))
			fatal("set a source");
}

void create_large_domain(struct vm *vm, int nr_vcpus, int sources)
{
	create_vm(vm, nr_vcpus);
	make_domain(vm, sources);
}

void create_domain(struct vm *vm, int nr_vcpus)
{
	create_large_domain(vm, nr_vcpus, SOURCES);
}

void create_private_domain(struct vm *vm, int nr_vcpus)
{
	make_vm(vm, nr_vcpus, 0);
	make_domain(vm, SOURCES);
}

static void place(struct vcpu *vcpu)
{
	cpu_set_t cpus;

	if (vcpu->cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET(vcpu->cpu, &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus))
			fatal("pin a vCPU");
	}
	if (setpriority(PRIO_PROCESS, 0, vcpu->nice))
		fatal("renice a vCPU");
	vcpu->tid = gettid();
}

/* Loads are zero, stores have no effect, and what KVM does not emulate is no instruction. */
static int wild_exit(struct vcpu *vcpu, int error)
{
	struct kvm_run *run = vcpu->run;

	if (!vcpu->wild)
		return 0;
	if (error == EIO || error == EOPNOTSUPP || error == EFAULT) {
		vcpu->refused++;
		set_reg(vcpu, CORE(regs.pc), get_reg(vcpu, CORE(regs.pc)) + 4);
		return 1;
	}
	if (error || run->exit_reason != KVM_EXIT_MMIO)
		return 0;
	if (run->mmio.is_write)
		vcpu->stores++;
	else
		vcpu->loads++;
	memset(run->mmio.data, 0, sizeof(run->mmio.data));
	return 1;
}

static void *vcpu_thread(void *argument)
{
	struct vcpu *vcpu = argument;

	place(vcpu);
	while (!vcpu->stop) {
		int error = ioctl(vcpu->fd, KVM_RUN, 0) ? errno : 0;

		if (wild_exit(vcpu, error))
			continue;
		if (error && error != EINTR && error != EAGAIN)
			fatal("KVM_RUN");
		if (vcpu->run->exit_reason != KVM_EXIT_INTR &&
		    vcpu->run->exit_reason != KVM_EXIT_UNKNOWN) {
			printf("FAIL exit %u\n", vcpu->run->exit_reason);
			exit(1);
		}
	}
	vcpu->run->immediate_exit = 0;
	return NULL;
}

static void on_sigusr1(int signal)
{
}

void start(struct vcpu *vcpu)
{
	/* What stop() sends ends KVM_RUN, not the program */
	struct sigaction usr1 = { .sa_handler = on_sigusr1 };

	sigaction(SIGUSR1, &usr1, NULL);
	vcpu->stop = 0;
	vcpu->run->immediate_exit = 0;
	if (pthread_create(&vcpu->thread, NULL, vcpu_thread, vcpu))
		fatal("start a thread");
}

void stop(struct vcpu *vcpu)
{
	vcpu->stop = 1;
	vcpu->run->immediate_exit = 1;
	pthread_kill(vcpu->thread, SIGUSR1);
	pthread_join(vcpu->thread, NULL);
}

void destroy_vm(struct vm *vm)
{
	int i, size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	for (i = 0; i < vm->nr_vcpus; i++) {
		munmap(vm->vcpus[i].run, size);
		close(vm->vcpus[i].fd);
	}
	if (vm->dev >= 0)
		close(vm->dev);
	close(vm->fd);
	munmap(vm->memory, GUEST_SIZE);
}

int reaches(volatile uint64_t *where, uint64_t value)
{
	int i;

	for (i = 0; i < 1000 && *where < value; i++)
		usleep(1000);
	return *where == value;
}

int irq_line(struct vm *vm, uint32_t gsi, int level)
{
	struct kvm_irq_level line = { .irq = gsi, .level = level };

	return ioctl(vm->fd, KVM_IRQ_LINE, &line) ? -errno : 0;
}

unsigned long notifications(int cpu)
{
	unsigned long total = 0;
	char line[512], *word;
	FILE *file = fopen("/proc/interrupts", "r");
	int column;

	while (file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, "kvm-notify"))
			continue;
		word = strtok(strchr(line, ':') + 1, " ");
		for (column = 0; word && *word >= '0' && *word <= '9';
		     column++, word = strtok(NULL, " "))
			if (cpu < 0 || cpu == column)
				total += strtoul(word, NULL, 10);
	}
	if (file)
		fclose(file);
	return total;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * User-level exception redirection: accesses of a guest to emulated devices are
 * handled in user mode, in the address space of the VMM, which satp names while
 * the guest runs. KVM hears of them only if the handler executes ECALL.
 *
 * Traps of the handler come here as if the guest had exited, but with
 * hstatus.SPV = 0: the registers that KVM has saved are the handler's. It goes
 * on with them after an interrupt or a fault, perhaps in a later KVM_RUN.
 * Before its ECALL the handler has loaded the guest's registers, so that KVM
 * finds what it finds after any exit.
 *
 * The device through which user space sets this up:
 * Documentation/virt/kvm/devices/riscv-uer.rst.
 */

#include <linux/kvm_host.h>
#include <linux/kvm_uer.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/csr.h>
#include <asm/haiov.h>
#include <asm/kvm_vcpu_trapless.h>

#define HSTATUS_HUR		BIT(HAIOV_HSTATUS_HUR_BIT)

static bool uer = true;
module_param(uer, bool, 0444);
MODULE_PARM_DESC(uer, "Let user mode handle accesses to emulated devices if the harts can");

/* Root of a G-stage that maps nothing */
#define UER_ROOT_ORDER		2
static unsigned long uer_no_memory;

DEFINE_STATIC_KEY_FALSE(kvm_riscv_uer_available);

/* The registers move with the vCPU, so that they are the vCPU's wherever it is loaded. */
void kvm_riscv_vcpu_uer_load(struct kvm_vcpu *vcpu)
{
	struct kvm_vcpu_uer *vu = &to_trapless(vcpu)->uer;

	if (!kvm_riscv_uer_available() || !vu->utvec)
		return;

	csr_write(CSR_USTATUS, vu->ustatus);
	csr_write(CSR_UTVEC, vu->utvec);
	csr_write(CSR_USCRATCH, vu->uscratch);
	csr_write(CSR_UEPC, vu->uepc);
	csr_write(CSR_UCAUSE, vu->ucause);
	csr_write(CSR_UTVAL, vu->utval);
	csr_write(CSR_UTINST, vu->utinst);
	csr_write(CSR_HUEDELEG, HAIOV_HUEDELEG_LOAD_MMIO | HAIOV_HUEDELEG_STORE_MMIO);
	vcpu->arch.guest_context.hstatus |= HSTATUS_HUR;
}

void kvm_riscv_vcpu_uer_put(struct kvm_vcpu *vcpu)
{
	struct kvm_vcpu_uer *vu = &to_trapless(vcpu)->uer;

	if (!kvm_riscv_uer_available() || !vu->utvec)
		return;

	vu->ustatus = csr_read(CSR_USTATUS);
	vu->uscratch = csr_read(CSR_USCRATCH);
	vu->uepc = csr_read(CSR_UEPC);
	vu->ucause = csr_read(CSR_UCAUSE);
	vu->utval = csr_read(CSR_UTVAL);
	vu->utinst = csr_read(CSR_UTINST);
}

/*
 * With immediate_exit, KVM_RUN brings a vCPU that is in its handler to an
 * instruction of the guest, so that user space finds the guest's registers: the
 * handler goes on, but where it returns to there is no guest memory. With
 * interrupts disabled, as the last thing before the entry.
 */
void kvm_riscv_vcpu_uer_enter(struct kvm_vcpu *vcpu)
{
	if (likely(!kvm_riscv_vcpu_in_uer(vcpu)))
		return;

	/* Never to HS-mode, whoever has changed what */
	vcpu->arch.guest_context.sstatus &= ~SR_SPP;
	if (likely(vcpu->wants_to_run))
		return;

	/* VMID 0 is nobody's, unless there are no VMIDs */
	csr_write(CSR_HGATP, (csr_read(CSR_HGATP) & GENMASK(63, HGATP_MODE_SHIFT)) |
			     PFN_DOWN(__pa((void *)uer_no_memory)));
	if (!kvm_riscv_gstage_vmid_bits())
		kvm_riscv_local_hfence_gvma_all();
	to_trapless(vcpu)->uer.finishing = true;
}

/* After each exit, with interrupts disabled. */
void kvm_riscv_vcpu_uer_sync(struct kvm_vcpu *vcpu)
{
	struct kvm_vcpu_uer *vu = &to_trapless(vcpu)->uer;

	if (likely(!vu->finishing))
		return;

	vu->finishing = false;
	kvm_riscv_gstage_update_hgatp(vcpu);
}

/* The handler's own memory is not there: as for any access of the process. */
static int uer_page_fault(struct kvm_cpu_trap *trap)
{
	unsigned int flags = FAULT_FLAG_USER;
	int ret;

	if (trap->scause == EXC_STORE_PAGE_FAULT)
		flags |= FAULT_FLAG_WRITE;
	else if (trap->scause == EXC_INST_PAGE_FAULT)
		flags |= FAULT_FLAG_INSTRUCTION;

	mmap_read_lock(current->mm);
	ret = fixup_user_fault(current->mm, trap->stval, flags, NULL);
	mmap_read_unlock(current->mm);

	return ret ? ret : 1;
}

/*
 * The handler has loaded the guest's registers and executed ECALL: the guest is
 * where it made the access, or behind it (ucause = 0).
 */
static int uer_left(struct kvm_vcpu *vcpu, struct kvm_run *run,
		    struct kvm_cpu_trap *trap)
{
	struct kvm_cpu_context *cntx = &vcpu->arch.guest_context;
	unsigned long cause, address;

	if (csr_read(CSR_USTATUS) & HAIOV_USTATUS_UPP)
		cntx->sstatus |= SR_SPP;
	else
		cntx->sstatus &= ~SR_SPP;
	cntx->hstatus |= HSTATUS_SPV;
	cntx->sepc = csr_read(CSR_UEPC);
	csr_clear(CSR_USTATUS, HAIOV_USTATUS_UH);

	cause = csr_read(CSR_UCAUSE);
	address = csr_read(CSR_UTVAL);
	switch (cause) {
	case 0:
		vcpu->stat.uer_exit_stat++;
		run->exit_reason = KVM_EXIT_RISCV_UER;
		return 0;
	case HAIOV_CAUSE_LOAD_MMIO:
		trap->scause = EXC_LOAD_GUEST_PAGE_FAULT;
		break;
	case HAIOV_CAUSE_STORE_MMIO:
		trap->scause = EXC_STORE_GUEST_PAGE_FAULT;
		break;
	default:
		return -EFAULT;
	}
	trap->sepc = cntx->sepc;
	trap->stval = address & 0x3;
	trap->htval = address >> 2;
	trap->htinst = csr_read(CSR_UTINST);

	return KVM_RISCV_UER_LEFT;
}

/* A trap of the handler. Returns as kvm_riscv_vcpu_exit(), or KVM_RISCV_UER_LEFT. */
int kvm_riscv_vcpu_uer_handle(struct kvm_vcpu *vcpu, struct kvm_run *run,
			      struct kvm_cpu_trap *trap)
{
	switch (trap->scause) {
	case EXC_SYSCALL:
		/* Anywhere else it is a bug of the VMM */
		if (trap->sepc == to_trapless(vcpu)->uer.uexit)
			return uer_left(vcpu, run, trap);
		break;
	case EXC_INST_PAGE_FAULT:
	case EXC_LOAD_PAGE_FAULT:
	case EXC_STORE_PAGE_FAULT:
		if (uer_page_fault(trap) > 0)
			return 1;
		break;
	}

	run->exit_reason = KVM_EXIT_INTERNAL_ERROR;
	run->internal.suberror = KVM_INTERNAL_ERROR_EMULATION;
	run->internal.ndata = 3;
	run->internal.data[0] = trap->scause;
	run->internal.data[1] = trap->sepc;
	run->internal.data[2] = trap->stval;

	return 0;
}

static int uer_create(struct kvm_device *dev, u32 type)
{
	if (dev->kvm->arch.uer.created)
		return -EEXIST;
	dev->kvm->arch.uer.created = true;

	return 0;
}

static void uer_destroy(struct kvm_device *dev)
{
	dev->kvm->arch.uer.created = false;
	kfree(dev);
}

static bool uer_is_memory(struct kvm *kvm, gfn_t gfn)
{
	int idx = srcu_read_lock(&kvm->srcu);
	bool memory = kvm_is_visible_gfn(kvm, gfn);

	srcu_read_unlock(&kvm->srcu, idx);

	return memory;
}

static int uer_set_region(struct kvm *kvm, u64 start, u64 size)
{
	struct kvm_uer *ku = &kvm->arch.uer;
	u64 addr;
	int ret;

	if (!size || !PAGE_ALIGNED(start) || !PAGE_ALIGNED(size) ||
	    start + size < start || start + size > BIT_ULL(kvm_riscv_gstage_gpa_bits()))
		return -EINVAL;
	if (size >> PAGE_SHIFT > KVM_DEV_UER_MAX_PAGES - ku->nr_pages)
		return -ENOSPC;

	for (addr = start; addr < start + size; addr += PAGE_SIZE) {
		if (uer_is_memory(kvm, gpa_to_gfn(addr)))
			return -EEXIST;
		ret = kvm_riscv_gstage_map_uer(kvm, addr);
		if (ret)
			return ret;
		ku->nr_pages++;
	}

	return 0;
}

static int uer_set_vcpu(struct kvm *kvm, u64 attr, u64 value)
{
	struct kvm_vcpu *vcpu = kvm_get_vcpu_by_id(kvm, attr >> 8);
	struct kvm_vcpu_uer *vu;
	int ret = 0;

	if (!vcpu)
		return -ENXIO;
	if (!mutex_trylock(&vcpu->mutex))
		return -EBUSY;

	vu = &to_trapless(vcpu)->uer;
	switch (attr & 0xff) {
	case KVM_DEV_UER_UTVEC:
		/* A guest that is in a handler cannot lose it */
		if (kvm_riscv_vcpu_in_uer(vcpu))
			ret = -EBUSY;
		else if (!value || value & 3)
			ret = -EINVAL;
		else
			vu->utvec = value;
		break;
	case KVM_DEV_UER_USCRATCH:
		vu->uscratch = value;
		break;
	case KVM_DEV_UER_UEXIT:
		vu->uexit = value;
		break;
	default:
		ret = -ENXIO;
	}
	mutex_unlock(&vcpu->mutex);

	return ret;
}

static int uer_has_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	switch (attr->group) {
	case KVM_DEV_UER_GRP_REGION:
		return 0;
	case KVM_DEV_UER_GRP_VCPU:
		if (attr->attr >> 8 < KVM_MAX_VCPU_IDS &&
		    (attr->attr & 0xff) <= KVM_DEV_UER_IN_HANDLER)
			return 0;
		break;
	}

	return -ENXIO;
}

static int uer_set_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	struct kvm *kvm = dev->kvm;
	u64 value;
	int ret;

	if (copy_from_user(&value, u64_to_user_ptr(attr->addr), sizeof(value)))
		return -EFAULT;

	mutex_lock(&kvm->lock);
	ret = uer_has_attr(dev, attr);
	if (!ret && attr->group == KVM_DEV_UER_GRP_REGION)
		ret = uer_set_region(kvm, attr->attr, value);
	else if (!ret)
		ret = uer_set_vcpu(kvm, attr->attr, value);
	mutex_unlock(&kvm->lock);

	return ret;
}

/* Only what user space cannot know */
static int uer_get_attr(struct kvm_device *dev, struct kvm_device_attr *attr)
{
	struct kvm_vcpu *vcpu;
	u64 value;

	if (attr->group != KVM_DEV_UER_GRP_VCPU ||
	    (attr->attr & 0xff) != KVM_DEV_UER_IN_HANDLER)
		return -ENXIO;
	vcpu = kvm_get_vcpu_by_id(dev->kvm, attr->attr >> 8);
	if (!vcpu)
		return -ENXIO;
	if (!mutex_trylock(&vcpu->mutex))
		return -EBUSY;
	value = kvm_riscv_vcpu_in_uer(vcpu);
	mutex_unlock(&vcpu->mutex);

	return copy_to_user(u64_to_user_ptr(attr->addr), &value, sizeof(value)) ?
	       -EFAULT : 0;
}

static const struct kvm_device_ops uer_device_ops = {
	.name = "kvm-riscv-uer",
	.create = uer_create,
	.destroy = uer_destroy,
	.set_attr = uer_set_attr,
	.get_attr = uer_get_attr,
	.has_attr = uer_has_attr,
};

/* Do all harts that the device tree describes have the extension? */
static bool __init uer_probe(void)
{
	struct device_node *cpu;
	bool found = uer;

	for_each_of_cpu_node(cpu)
		found &= of_property_match_string(cpu, "riscv,isa-extensions",
						  "xuer") >= 0;

	return found;
}

int __init kvm_riscv_uer_init(void)
{
	int ret;

	if (!uer_probe())
		return -ENODEV;

	uer_no_memory = __get_free_pages(GFP_KERNEL | __GFP_ZERO, UER_ROOT_ORDER);
	if (!uer_no_memory)
		return -ENOMEM;

	ret = kvm_register_device_ops(&uer_device_ops, KVM_DEV_TYPE_RISCV_UER);
	if (ret) {
		free_pages(uer_no_memory, UER_ROOT_ORDER);
		return ret;
	}
	static_branch_enable(&kvm_riscv_uer_available);

	return 0;
}

void kvm_riscv_uer_exit(void)
{
	if (!kvm_riscv_uer_available())
		return;

	kvm_unregister_device_ops(KVM_DEV_TYPE_RISCV_UER);
	free_pages(uer_no_memory, UER_ROOT_ORDER);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vCPUs with trap-less virtual interrupts
 */

#ifndef __KVM_RISCV_VCPU_TRAPLESS_H
#define __KVM_RISCV_VCPU_TRAPLESS_H

#include <linux/build_bug.h>
#include <linux/container_of.h>
#include <linux/kvm_host.h>
#include <asm/csr.h>
#include <asm/kvm_trapless.h>
#include <asm/kvm_uer.h>
#include <asm/kvm_vcpu_boost.h>
#include <asm/kvm_vcpu_fast.h>

/*
 * What KVM allocates for a vCPU. This would be part of struct kvm_vcpu_arch if KVM
 * were not a module of kernels that are built without Xtrapless, too: their
 * xfer_to_guest_mode_handle_work() counts signals in vcpu->stat, which is behind
 * vcpu->arch.
 */
struct kvm_vcpu_trapless {
	/* The first, as kvm_init() wants it */
	struct kvm_vcpu	vcpu;

	/* What is pending for the vCPU; NULL without an interrupt domain */
	void		*file;

	/* Value of hifmap that attaches the vCPU to a hart */
	u64		slot;

	/* The timer interrupts the host while the vCPU is paused */
	bool		timer_armed;

	struct kvm_vcpu_boost boost;

	/* Handler in user mode */
	struct kvm_vcpu_uer uer;

	struct kvm_vcpu_fast fast;
};

static_assert(offsetof(struct kvm_vcpu_trapless, vcpu) == 0);

static inline struct kvm_vcpu_trapless *to_trapless(struct kvm_vcpu *vcpu)
{
	return container_of(vcpu, struct kvm_vcpu_trapless, vcpu);
}

/* Does the vCPU have an interrupt domain? */
static inline bool kvm_riscv_vcpu_trapless(struct kvm_vcpu *vcpu)
{
	return kvm_riscv_trapless_available() && to_trapless(vcpu)->file;
}

/* Is the vCPU in a handler in user mode, whose registers KVM has saved? */
static inline bool kvm_riscv_vcpu_in_uer(struct kvm_vcpu *vcpu)
{
	return kvm_riscv_uer_available() && to_trapless(vcpu)->uer.utvec &&
	       !(vcpu->arch.guest_context.hstatus & HSTATUS_SPV);
}

#endif /* __KVM_RISCV_VCPU_TRAPLESS_H */

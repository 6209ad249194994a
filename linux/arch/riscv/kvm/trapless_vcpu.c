// SPDX-License-Identifier: GPL-2.0-only
/*
 * vCPUs of an interrupt domain
 *
 * A vCPU is running (attached to a hart, V = 1), paused (attached, V = 0:
 * anywhere in KVM_RUN between load and put) or scheduled off (detached). What
 * arrives for a running vCPU never comes here. What arrives for a paused one
 * interrupts the host (trapless_notify.c). What arrives for a detached one is
 * kept in its file, and the host is notified if the state it was left in says
 * that somebody cares.
 */

#include <linux/kvm_host.h>
#include <linux/sched/stat.h>
#include <asm/kvm_trapless.h>

#include "trapless.h"

/* Is there a source that the controller would let the vCPU claim? */
static bool trapless_source_pending(struct kvm_vcpu *vcpu)
{
	struct kvm_trapless *tl = &vcpu->kvm->arch.trapless;
	void *file = to_trapless(vcpu)->file;
	u64 threshold = atomic64_read(trapless_word(file, XTL_FILE_THRESHOLD));
	u64 ready, entry;
	u32 source;

	for (u32 base = 0; base <= tl->nr_sources; base += 64) {
		ready = atomic64_read(trapless_pending(file, base)) &
			atomic64_read(trapless_enabled(file, base));
		while (ready) {
			source = base + __ffs64(ready);
			ready &= ready - 1;
			if (source > tl->nr_sources)
				break;
			entry = READ_ONCE(tl->sources[source]);
			if ((entry & XTL_SOURCE_ENTRY_V) &&
			    FIELD_GET(XTL_SOURCE_ENTRY_PRIO, entry) > threshold)
				return true;
		}
	}

	return false;
}

/* Would the guest take one of the interrupts of @mask (VS-level numbers)? */
bool kvm_riscv_vcpu_trapless_has_interrupts(struct kvm_vcpu *vcpu, u64 mask)
{
	unsigned long enabled;

	if (!kvm_riscv_vcpu_trapless(vcpu))
		return false;

	enabled = vcpu->arch.guest_csr.vsie << VSIP_TO_HVIP_SHIFT;
	enabled &= (unsigned long)mask;

	if ((enabled & BIT(IRQ_VS_SOFT)) && kvm_riscv_vcpu_trapless_get_soft(vcpu))
		return true;

	return (enabled & BIT(IRQ_VS_EXT)) && trapless_source_pending(vcpu);
}

/* vsip.SSIP, wherever the vCPU is */
bool kvm_riscv_vcpu_trapless_get_soft(struct kvm_vcpu *vcpu)
{
	return atomic64_read(trapless_ctl(to_trapless(vcpu)->file)) &
	       XTL_FILE_CTL_SOFT;
}

/* Set vsip.SSIP of a detached vCPU. */
void kvm_riscv_vcpu_trapless_set_soft(struct kvm_vcpu *vcpu, bool pending)
{
	atomic64_t *ctl = trapless_ctl(to_trapless(vcpu)->file);

	if (pending)
		atomic64_or(XTL_FILE_CTL_SOFT, ctl);
	else
		atomic64_andnot(XTL_FILE_CTL_SOFT, ctl);
}

/* Send a software interrupt, as sgenipi of a vCPU of the VM does. */
void kvm_riscv_vcpu_trapless_send_soft(struct kvm_vcpu *vcpu)
{
	trapless_op(XTL_OP_SOFT, vcpu->kvm->arch.trapless.domain, vcpu->vcpu_id);
}

/* Clear vsip.SSIP. */
void kvm_riscv_vcpu_trapless_clear_soft(struct kvm_vcpu *vcpu)
{
	int cpu = get_cpu();

	/* The hart caches the bit while the vCPU is attached */
	if (vcpu->cpu == cpu)
		csr_clear(CSR_VSIP, BIT(IRQ_S_SOFT));
	else
		kvm_riscv_vcpu_trapless_set_soft(vcpu, false);
	put_cpu();
}

void kvm_riscv_vcpu_trapless_reset(struct kvm_vcpu *vcpu)
{
	/* The interrupt controller is no part of the hart that is reset */
	if (kvm_riscv_vcpu_trapless(vcpu))
		kvm_riscv_vcpu_trapless_set_soft(vcpu, false);
}

/* Attach the vCPU to this hart. vsie has been written already. */
void kvm_riscv_vcpu_trapless_load(struct kvm_vcpu *vcpu)
{
	if (!kvm_riscv_vcpu_trapless(vcpu))
		return;

	csr_write(CSR_HIFMAP, to_trapless(vcpu)->slot);
	/* An invalid slot means that the controller does not find the file */
	KVM_BUG(!(csr_read(CSR_HIFMAP) & XTL_HIFMAP_V), vcpu->kvm,
		"vCPU %d cannot be attached\n", vcpu->vcpu_id);
	kvm_riscv_trapless_check();
}

/* In which state is the vCPU left? */
static unsigned long trapless_put_state(struct kvm_vcpu *vcpu)
{
	/* Powered off: interrupts have to wait for somebody to start it */
	if (kvm_riscv_vcpu_stopped(vcpu) || vcpu->arch.pause)
		return XTL_STATE_STOPPED;

	if (kvm_vcpu_is_blocking(vcpu)) {
		/*
		 * On the way to HALTED the controller notifies the host of what
		 * is pending in the file. It cannot know that the guest masks it
		 * in vsie; the vCPU would wake up and block for ever.
		 */
		if (kvm_riscv_vcpu_trapless_get_soft(vcpu) ||
		    trapless_source_pending(vcpu))
			return XTL_STATE_PREEMPTED;
		return XTL_STATE_HALTED;
	}

	if (READ_ONCE(vcpu->preempted))
		return XTL_STATE_PREEMPTED;

	/* Busy elsewhere: it returns by itself */
	return XTL_STATE_STOPPED;
}

/* Detach the vCPU from this hart. */
void kvm_riscv_vcpu_trapless_put(struct kvm_vcpu *vcpu)
{
	unsigned long state;

	if (!kvm_riscv_vcpu_trapless(vcpu))
		return;

	/* vstimecmp will be changed: the host does not want to hear of it */
	kvm_riscv_vcpu_trapless_arm(vcpu, false);

	state = trapless_put_state(vcpu);
	csr_write(CSR_HIFMAP, FIELD_PREP(XTL_HIFMAP_STATE, state));
	/* What arrived last is in the file and no concern of the next vCPU */
	csr_clear(CSR_HIP, BIT(IRQ_VS_SOFT) | BIT(IRQ_VS_EXT));

	/*
	 * The controller looks once more at the file for HALTED only. Something
	 * may have arrived since kvm_vcpu_block() looked.
	 */
	if (state == XTL_STATE_PREEMPTED && kvm_vcpu_is_blocking(vcpu) &&
	    kvm_riscv_vcpu_trapless_has_interrupts(vcpu, -1UL))
		trapless_op(XTL_OP_EVAL, vcpu->kvm->arch.trapless.domain,
			    vcpu->vcpu_id);
}

/* Last thing before the guest is entered, with interrupts disabled. */
void kvm_riscv_vcpu_trapless_enter(struct kvm_vcpu *vcpu)
{
	if (!kvm_riscv_vcpu_trapless(vcpu))
		return;

	/* A guest that waits on the hart keeps it from other threads */
	if (READ_ONCE(vcpu->kvm->arch.trapless.native_wfi) &&
	    single_task_running())
		vcpu->arch.guest_context.hstatus &= ~HSTATUS_VTW;
	else
		vcpu->arch.guest_context.hstatus |= HSTATUS_VTW;
}

/*
 * Does the guest's timer interrupt the host until the vCPU goes on? With
 * interrupts disabled, after each exit from the guest.
 */
void kvm_riscv_vcpu_trapless_arm(struct kvm_vcpu *vcpu, bool arm)
{
	if (!kvm_riscv_vcpu_trapless(vcpu) ||
	    to_trapless(vcpu)->timer_armed == arm)
		return;

	if (arm)
		csr_set(CSR_HIE, BIT(IRQ_VS_TIMER));
	else
		csr_clear(CSR_HIE, BIT(IRQ_VS_TIMER));
	to_trapless(vcpu)->timer_armed = arm;
}

/*
 * Something arrived for a preempted vCPU. If another vCPU of the VM runs on
 * this CPU it gives its time to the preempted one, as kvm_vcpu_on_spin() would
 * do later.
 */
void kvm_riscv_vcpu_trapless_boost(struct kvm_vcpu *vcpu)
{
	struct kvm_vcpu *running = kvm_get_running_vcpu();

	WRITE_ONCE(vcpu->ready, true);
	if (running && running != vcpu && running->kvm == vcpu->kvm)
		WRITE_ONCE(to_trapless(running)->yield_to, vcpu);
}

/* Give the rest of the vCPU's time to the one that needs it more. */
void kvm_riscv_vcpu_trapless_yield(struct kvm_vcpu *vcpu)
{
	struct kvm_vcpu *target = READ_ONCE(to_trapless(vcpu)->yield_to);

	if (likely(!target))
		return;

	WRITE_ONCE(to_trapless(vcpu)->yield_to, NULL);
	if (READ_ONCE(target->preempted) && kvm_vcpu_yield_to(target) > 0)
		vcpu->stat.trapless_yields++;
}

/*
 * The controller has told the host of a vCPU, which may be in another state by
 * now. Interrupt context, or a work item that looks at all vCPUs.
 */
void kvm_riscv_vcpu_trapless_notified(struct kvm_vcpu *vcpu)
{
	unsigned int state;
	atomic64_t *ctl;
	s64 old, new;

	if (!kvm_riscv_vcpu_trapless(vcpu))
		return;

	/*
	 * The vCPU looks at its file when it has been attached next, which it
	 * does before it can wait again. Until then there is nothing to tell:
	 * a guest that goes on sending must not interrupt this hart over and
	 * over while the vCPU waits for its share of it.
	 */
	ctl = trapless_ctl(to_trapless(vcpu)->file);
	old = atomic64_read(ctl);
	do {
		new = old & ~XTL_FILE_CTL_ON;
		state = FIELD_GET(XTL_FILE_CTL_STATE, old);
		if (state != XTL_STATE_LOADED)
			new &= ~XTL_FILE_CTL_STATE;	/* XTL_STATE_STOPPED */
	} while (!atomic64_try_cmpxchg(ctl, &old, new));

	if (kvm_vcpu_wake_up(vcpu))
		vcpu->stat.trapless_wakeups++;
	else if (state == XTL_STATE_PREEMPTED)
		kvm_riscv_vcpu_trapless_boost(vcpu);
}

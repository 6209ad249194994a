/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * User contexts (Xhcs) for KVM
 */

#ifndef __KVM_RISCV_UCTX_H
#define __KVM_RISCV_UCTX_H

#include <linux/jump_label.h>
#include <linux/types.h>

struct eventfd_ctx;
struct kvm;
struct kvm_cpu_trap;
struct kvm_vcpu;

#ifdef CONFIG_KVM_RISCV_UCTX

DECLARE_STATIC_KEY_FALSE(kvm_riscv_uctx_available);
#define kvm_riscv_uctx_available() \
	static_branch_unlikely(&kvm_riscv_uctx_available)

int kvm_riscv_uctx_init(void);
void kvm_riscv_uctx_exit(void);
void kvm_riscv_uctx_enable(void);
void kvm_riscv_uctx_disable(void);
void kvm_riscv_uctx_told(u32 id);
void kvm_riscv_uctx_flush(void);
void kvm_riscv_uctx_lost(void);
void kvm_riscv_uctx_release_vm(struct kvm *kvm);
int kvm_riscv_uctx_agree(struct kvm *kvm, u64 flags);

#else

#define kvm_riscv_uctx_available()	false

static inline int kvm_riscv_uctx_init(void)
{
	return -ENODEV;
}

static inline void kvm_riscv_uctx_exit(void)
{
}

static inline void kvm_riscv_uctx_enable(void)
{
}

static inline void kvm_riscv_uctx_disable(void)
{
}

static inline void kvm_riscv_uctx_told(u32 id)
{
}

static inline void kvm_riscv_uctx_flush(void)
{
}

static inline void kvm_riscv_uctx_lost(void)
{
}

static inline void kvm_riscv_uctx_release_vm(struct kvm *kvm)
{
}

static inline int kvm_riscv_uctx_agree(struct kvm *kvm, u64 flags)
{
	return -EINVAL;
}

#endif /* CONFIG_KVM_RISCV_UCTX */

/* A user context for what an eventfd tells */
struct kvm_uctx_target {
	/* Physical address of the context */
	u64		address;
	unsigned int	vector;
};

/* Of a VM with a guest */
struct kvm_uctx_guest {
	/* Handlers may interrupt it */
	bool		agreed;
	/* When handlers were last told of another irqfd in whose place they inject */
	unsigned long	changed;
};

bool kvm_riscv_uctx_find(struct eventfd_ctx *eventfd,
			 struct kvm_uctx_target *target);
void kvm_riscv_vcpu_uctx_load(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uctx_put(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uctx_enter(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uctx_sync(struct kvm_vcpu *vcpu, struct kvm_cpu_trap *trap);

#endif /* __KVM_RISCV_UCTX_H */

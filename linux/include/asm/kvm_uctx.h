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

DECLARE_STATIC_KEY_FALSE(kvm_riscv_uctx_available);
#define kvm_riscv_uctx_available() \
	static_branch_unlikely(&kvm_riscv_uctx_available)

/* A user context for what an eventfd tells */
struct kvm_uctx_target {
	/* Physical address of the context */
	u64		address;
	unsigned int	vector;
};

int kvm_riscv_uctx_init(void);
void kvm_riscv_uctx_exit(void);
void kvm_riscv_uctx_enable(void);
void kvm_riscv_uctx_disable(void);
void kvm_riscv_uctx_told(u32 id);
void kvm_riscv_uctx_flush(void);
void kvm_riscv_uctx_lost(void);
bool kvm_riscv_uctx_find(struct eventfd_ctx *eventfd,
			 struct kvm_uctx_target *target);
void kvm_riscv_uctx_release_vm(struct kvm *kvm);
void kvm_arch_irqfds_changed(struct kvm *kvm);
void kvm_riscv_vcpu_uctx_load(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uctx_put(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uctx_enter(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uctx_sync(struct kvm_vcpu *vcpu, struct kvm_cpu_trap *trap);

/* virt/kvm/kvm_main.c */
bool kvm_in_run(void);

/* virt/kvm/eventfd.c */
struct kvm *kvm_irqfd_find(struct eventfd_ctx *eventfd);
int kvm_irqfd_pin(struct kvm *kvm, struct eventfd_ctx *eventfd);

#endif /* __KVM_RISCV_UCTX_H */

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * User-level exception redirection (Xuer) for KVM
 */

#ifndef __KVM_RISCV_UER_H
#define __KVM_RISCV_UER_H

#include <linux/bits.h>
#include <linux/jump_label.h>
#include <linux/kvm_types.h>
#include <linux/types.h>
#include <asm/haiov.h>

struct kvm;
struct kvm_cpu_trap;
struct kvm_run;
struct kvm_vcpu;

/* Type of a G-stage leaf: accesses are for user mode */
#define KVM_RISCV_GSTAGE_MMIO	((u64)HAIOV_LEAF_MMIO << HAIOV_LEAF_TYPE_SHIFT)

/* What kvm_riscv_vcpu_uer_handle() returns if KVM has to handle the access */
#define KVM_RISCV_UER_LEFT	2

/* Pages of a VM whose accesses user mode handles */
struct kvm_uer {
	bool		created;

	/* Pages so far */
	unsigned int	nr_pages;
};

/* Registers of a vCPU that may have a handler in user mode */
struct kvm_vcpu_uer {
	/* Address of the handler; 0: there is none */
	unsigned long	utvec;

	/* Address of its ECALL */
	unsigned long	uexit;

	/* Runs without the guest's memory, to the end of the handler */
	bool		finishing;

	unsigned long	ustatus;
	unsigned long	uscratch;
	unsigned long	uepc;
	unsigned long	ucause;
	unsigned long	utval;
	unsigned long	utinst;
};

#ifdef CONFIG_KVM_RISCV_UER

DECLARE_STATIC_KEY_FALSE(kvm_riscv_uer_available);
#define kvm_riscv_uer_available() \
	static_branch_unlikely(&kvm_riscv_uer_available)

gpa_t kvm_riscv_gpa_size(struct kvm *kvm);
int kvm_riscv_gstage_map_uer(struct kvm *kvm, gpa_t gpa);
int kvm_riscv_uer_init(void);
void kvm_riscv_uer_exit(void);

#else

#define kvm_riscv_uer_available()	false

static inline int kvm_riscv_uer_init(void)
{
	return -ENODEV;
}

static inline void kvm_riscv_uer_exit(void)
{
}

#endif /* CONFIG_KVM_RISCV_UER */

void kvm_riscv_vcpu_uer_load(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uer_put(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uer_enter(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_uer_sync(struct kvm_vcpu *vcpu);
int kvm_riscv_vcpu_uer_handle(struct kvm_vcpu *vcpu, struct kvm_run *run,
			      struct kvm_cpu_trap *trap);

#endif /* __KVM_RISCV_UER_H */

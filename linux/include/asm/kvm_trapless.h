/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trap-less virtual interrupts (Xtrapless) for KVM
 */

#ifndef __KVM_RISCV_TRAPLESS_H
#define __KVM_RISCV_TRAPLESS_H

#include <linux/jump_label.h>
#include <linux/kvm_types.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct kvm;
struct kvm_device_attr;
struct kvm_device_ops;
struct kvm_vcpu;

/* Interrupt domain of a VM */
struct kvm_trapless {
	/* The device exists, so the VM has an in-kernel irqchip */
	bool		created;

	/* The tables below exist and the controller knows them */
	bool		initialized;

	/* Number of the domain */
	u32		domain;

	/* Highest source */
	u32		nr_sources;

	/* Entries of the vhart table */
	u32		nr_vharts;

	/* Vhart table, read by the controller */
	u64		*vharts;

	/* Source table, read by the controller */
	u64		*sources;

	/* Line levels and outstanding resamples, written by the controller */
	u64		*lines;

	/* Passes completions of resample sources on */
	struct work_struct resample;

	/* Held from the moment they are found until they have been passed on */
	spinlock_t	resample_lock;

	/* Sources that wires of passed devices drive, under kvm->lock */
	struct list_head wires;
};

/* main.c */
bool kvm_riscv_harts_have(const char *extension);

#ifdef CONFIG_KVM_RISCV_TRAPLESS

DECLARE_STATIC_KEY_FALSE(kvm_riscv_trapless_available);
#define kvm_riscv_trapless_available() \
	static_branch_unlikely(&kvm_riscv_trapless_available)

#define kvm_riscv_trapless_created(k)	((k)->arch.trapless.created)

#define kvm_riscv_trapless_initialized(k)				\
	(smp_load_acquire(&(k)->arch.trapless.initialized)) /* create_domain() */

extern const struct kvm_device_ops kvm_riscv_trapless_device_ops;

/* trapless_hart.c: harts of the host */
int kvm_riscv_trapless_init(void);
void kvm_riscv_trapless_exit(void);
int kvm_riscv_trapless_enable(void);
void kvm_riscv_trapless_disable(void);

/* trapless.c: domains of VMs */
unsigned int kvm_riscv_trapless_nr_domains(void);
void kvm_riscv_trapless_destroy_vm(struct kvm *kvm);

/* trapless_vcpu.c */
void kvm_riscv_vcpu_trapless_reset(struct kvm_vcpu *vcpu);

#else

#define kvm_riscv_trapless_available()		false

static inline bool kvm_riscv_trapless_created(struct kvm *kvm)
{
	return false;
}

static inline bool kvm_riscv_trapless_initialized(struct kvm *kvm)
{
	return false;
}

static inline int kvm_riscv_trapless_init(void)
{
	return -ENODEV;
}

static inline void kvm_riscv_trapless_exit(void)
{
}

static inline int kvm_riscv_trapless_enable(void)
{
	return 0;
}

static inline void kvm_riscv_trapless_disable(void)
{
}

static inline unsigned int kvm_riscv_trapless_nr_domains(void)
{
	return 0;
}

static inline void kvm_riscv_trapless_destroy_vm(struct kvm *kvm)
{
}

static inline void kvm_riscv_vcpu_trapless_reset(struct kvm_vcpu *vcpu)
{
}

#endif /* CONFIG_KVM_RISCV_TRAPLESS */

/* trapless.c: domains and injection */
int kvm_riscv_trapless_tables_init(void);
void kvm_riscv_trapless_tables_exit(void);
u64 kvm_riscv_trapless_tables(void);
int kvm_riscv_trapless_create_domain(struct kvm *kvm);
struct kvm *kvm_riscv_trapless_find_vm(u32 domain);
void kvm_riscv_trapless_sync(void);
void kvm_riscv_trapless_check(void);
int kvm_riscv_trapless_inject(struct kvm *kvm, u32 source, bool level);
int kvm_riscv_trapless_inject_irqfd(struct kvm *kvm, u32 source);
int kvm_riscv_trapless_route(struct kvm *kvm, u32 source, u64 entry);
u64 kvm_riscv_trapless_source(struct kvm *kvm, u32 source);
bool kvm_riscv_trapless_get_line(struct kvm *kvm, u32 source);
void kvm_riscv_trapless_resample(struct kvm *kvm);

/* trapless_vcpu.c: a vCPU on its way through the run loop */
void kvm_riscv_vcpu_trapless_load(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_trapless_put(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_trapless_arm(struct kvm_vcpu *vcpu, bool arm);
bool kvm_riscv_vcpu_trapless_has_interrupts(struct kvm_vcpu *vcpu, u64 mask);
bool kvm_riscv_vcpu_trapless_get_soft(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_trapless_set_soft(struct kvm_vcpu *vcpu, bool pending);
void kvm_riscv_vcpu_trapless_send_soft(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_trapless_clear_soft(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_trapless_notified(struct kvm_vcpu *vcpu);

/* trapless_notify.c: interrupts of the host */
int kvm_riscv_trapless_notify_init(void);
void kvm_riscv_trapless_notify_exit(void);
int kvm_riscv_trapless_notify_start(void);
bool kvm_riscv_trapless_notify_close(void);
bool kvm_riscv_trapless_notify_enabled(void);
bool kvm_riscv_trapless_notify_is_open(void);
void kvm_riscv_trapless_notify_enable(void);
void kvm_riscv_trapless_notify_disable(void);

/* trapless_grant.c: injection by threads in user mode */
int kvm_riscv_trapless_grant_init(void);
void kvm_riscv_trapless_grant_exit(void);
u64 kvm_riscv_trapless_grant_value(struct kvm *kvm, u32 first, u32 count);
u64 kvm_riscv_trapless_grant_current(void);
int kvm_riscv_trapless_grant_set(struct kvm *kvm, u32 first, u32 count);
u64 kvm_riscv_trapless_grant_get(struct kvm *kvm);

#endif /* __KVM_RISCV_TRAPLESS_H */

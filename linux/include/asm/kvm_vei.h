/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual events (Xvei) for KVM
 */

#ifndef __KVM_RISCV_VEI_H
#define __KVM_RISCV_VEI_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/jump_label.h>
#include <linux/kvm_types.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <asm/haiov.h>

struct eventfd_ctx;
struct kvm;
struct kvm_vcpu;
struct kvm_vei_event;
struct kvm_vei_shadow;
struct pid;

/* Entries of a VM's event table, as a power of two: one page */
#define KVM_VEI_ORDER		8
#define KVM_VEI_EVENTS		BIT(KVM_VEI_ORDER)

/* Pages of a VM with doorbells or shadows: each costs one of the host's */
#define KVM_VEI_PAGES		128

/* Custom state in hstateen0: sgenvei */
#define KVM_RISCV_STATEEN0_C	BIT(0)

/* Type of a G-stage leaf: accesses are matched with a doorbell page */
#define KVM_RISCV_GSTAGE_BELL	((u64)HAIOV_LEAF_DOORBELL << HAIOV_LEAF_TYPE_SHIFT)
#define KVM_RISCV_GSTAGE_TYPE	(3ULL << HAIOV_LEAF_TYPE_SHIFT)

/* Events and doorbells of a VM */
struct kvm_vei {
	/* The event table; NULL without Xvei */
	void			*table;

	/* Requests in use, and pages with doorbells or shadows; slots_lock */
	DECLARE_BITMAP(requests, KVM_VEI_EVENTS);
	struct list_head	pages;
	unsigned int		nr_pages;
	unsigned int		nr_shadows;
	bool			created;

	/* Its events, and the CPUs that hear of them; changed under the mutex */
	struct mutex		lock;
	struct list_head	events;
	cpumask_var_t		cpus;
	/* The process whose threads say which CPUs, and when they were last asked */
	struct pid		*process;
	struct work_struct	follow;
	unsigned long		followed;

	/* Interrupts of the host by its guest in this tick */
	unsigned long		tick;
	atomic_t		told;
};

#ifdef CONFIG_KVM_RISCV_VEI

DECLARE_STATIC_KEY_FALSE(kvm_riscv_vei_available);
#define kvm_riscv_vei_available() \
	static_branch_unlikely(&kvm_riscv_vei_available)

/* vei.c: the harts and their queues; vei_event.c: the events of a VM */
int kvm_riscv_vei_init(void);
void kvm_riscv_vei_exit(void);
int kvm_riscv_vei_enable(void);
void kvm_riscv_vei_disable(void);
int kvm_riscv_vei_init_vm(struct kvm *kvm);
void kvm_riscv_vei_destroy_vm(struct kvm *kvm);

/* vei_bell.c: doorbells of KVM_IOEVENTFD */
#define __KVM_HAVE_ARCH_IOEVENTFD
void *kvm_arch_add_ioeventfd(struct kvm *kvm, u64 addr, int length,
			     bool wildcard, u64 datamatch,
			     struct eventfd_ctx *eventfd);
void kvm_arch_remove_ioeventfd(void *arch);
void kvm_riscv_vei_update_region(struct kvm *kvm, u64 base_gfn, u64 npages);

#else

#define kvm_riscv_vei_available()	false

static inline int kvm_riscv_vei_init(void)
{
	return -ENODEV;
}

static inline void kvm_riscv_vei_exit(void)
{
}

static inline int kvm_riscv_vei_enable(void)
{
	return 0;
}

static inline void kvm_riscv_vei_disable(void)
{
}

static inline int kvm_riscv_vei_init_vm(struct kvm *kvm)
{
	return 0;
}

static inline void kvm_riscv_vei_destroy_vm(struct kvm *kvm)
{
}

static inline void kvm_riscv_vei_update_region(struct kvm *kvm, u64 base_gfn,
					       u64 npages)
{
}

#endif /* CONFIG_KVM_RISCV_VEI */

/* vei.c: events */
void kvm_riscv_vcpu_vei_load(struct kvm_vcpu *vcpu);
void kvm_riscv_vcpu_vei_put(struct kvm_vcpu *vcpu);
struct kvm_vei_event *kvm_riscv_vei_create(struct kvm *kvm,
					   struct eventfd_ctx *eventfd);
void kvm_riscv_vei_free(struct kvm *kvm, struct kvm_vei_event *event);
void kvm_riscv_vei_generate(u64 entry);
void kvm_riscv_vei_sync(void);
void kvm_riscv_vei_drain(void);
bool kvm_riscv_vei_take(void);
void kvm_riscv_vei_aim(struct eventfd_ctx *eventfd);
u64 kvm_riscv_vei_hart(unsigned int cpu);
void kvm_riscv_vei_name(unsigned int cpu);
void kvm_riscv_vei_unname(unsigned int cpu);
unsigned int kvm_riscv_vei_open_cpu(u64 cpu);
unsigned int kvm_riscv_vei_request(struct kvm_vei_event *event);

int kvm_riscv_gstage_map_bell(struct kvm *kvm, gpa_t gpa, void *bell);
void kvm_riscv_gstage_unmap_bell(struct kvm *kvm, gpa_t gpa, void *bell);

/* vei_dev.c: the KVM device */
extern struct kvm_device_ops kvm_riscv_vei_device_ops;

/* vei_bell.c: pages of doorbells and shadows */
int kvm_riscv_vei_set_shadow(struct kvm *kvm, u64 addr,
			     struct kvm_vei_shadow *shadow);
int kvm_riscv_vei_add_clear(struct kvm *kvm, u64 addr, u64 offset);
int kvm_riscv_vei_find_request(struct kvm *kvm, u64 addr, u64 *request);
void kvm_riscv_vei_free_pages(struct kvm *kvm);

#endif /* __KVM_RISCV_VEI_H */

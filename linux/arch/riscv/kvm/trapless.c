// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupt domains: one for each VM with a trap-less interrupt controller
 *
 * A domain consists of tables in memory which the controller reads (which
 * vharts exist, where each source goes) and of one file for each vCPU which
 * holds what is pending. The controller posts to the files, whoever the sender
 * is, and looks up afterwards whether the vCPU is attached to a hart; so
 * whatever has been posted is in the file, and nothing needs to be collected
 * when a vCPU is scheduled off.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/idr.h>
#include <linux/kvm_host.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <asm/cpufeature.h>
#include <asm/kvm_trapless.h>

#include "trapless.h"

#define TRAPLESS_DOMAINS_ORDER	10
#define TRAPLESS_DOMAINS	BIT(TRAPLESS_DOMAINS_ORDER)

/* Entry of the domain table */
struct trapless_domain {
	u64 config;
	u64 vhart_table;
	u64 source_table;
	u64 lines;
};

static_assert(sizeof(struct trapless_domain) == XTL_DOMAIN_SIZE);

static struct trapless_domain *trapless_domains;
static struct kvm __rcu *trapless_vms[TRAPLESS_DOMAINS];
static DEFINE_IDA(trapless_ida);

static unsigned int domains_per_user = 256;
module_param(domains_per_user, uint, 0644);
MODULE_PARM_DESC(domains_per_user, "Domains a user without CAP_SYS_RESOURCE may have at a time");

/* Who created a domain; INVALID_UID if it is free */
static kuid_t trapless_owners[TRAPLESS_DOMAINS];
static DEFINE_MUTEX(trapless_owners_lock);

static int trapless_alloc_domain(void)
{
	unsigned int i, count = 0;
	int id = -EDQUOT;

	mutex_lock(&trapless_owners_lock);
	for (i = 1; i < TRAPLESS_DOMAINS; i++)
		count += uid_eq(trapless_owners[i], current_uid());
	if (count < READ_ONCE(domains_per_user) || capable(CAP_SYS_RESOURCE))
		id = ida_alloc_range(&trapless_ida, 1, TRAPLESS_DOMAINS - 1,
				     GFP_KERNEL_ACCOUNT);
	if (id > 0)
		trapless_owners[id] = current_uid();
	mutex_unlock(&trapless_owners_lock);

	return id;
}

static void trapless_free_domain(unsigned int id)
{
	mutex_lock(&trapless_owners_lock);
	trapless_owners[id] = INVALID_UID;
	ida_free(&trapless_ida, id);
	mutex_unlock(&trapless_owners_lock);
}

unsigned int kvm_riscv_trapless_nr_domains(void)
{
	/* Domain 0 stays unused, so that an empty register names no VM */
	return kvm_riscv_trapless_available() ? TRAPLESS_DOMAINS - 1 : 0;
}

/* The VM of a domain; the caller is in an RCU read-side critical section. */
struct kvm *kvm_riscv_trapless_find_vm(u32 domain)
{
	if (domain >= TRAPLESS_DOMAINS)
		return NULL;

	return rcu_dereference(trapless_vms[domain]);
}

/* Completes when no lookup uses table contents older than this call. */
void kvm_riscv_trapless_sync(void)
{
	trapless_op(XTL_OP_SYNC, 0, 0);
}

/* Errors of accesses from this hart, which the controller keeps until somebody looks */
void kvm_riscv_trapless_check(void)
{
	unsigned long errors = csr_read(CSR_HTLCFG) &
			       (XTL_HTLCFG_ERR | XTL_HTLCFG_FLT);

	if (likely(!errors))
		return;

	csr_clear(CSR_HTLCFG, errors);
	WARN_ONCE(errors & XTL_HTLCFG_ERR,
		  "Two harts had the same vCPU in their slots\n");
	WARN_ONCE(errors & XTL_HTLCFG_FLT,
		  "The controller could not access its tables or files\n");
}

static void trapless_free_tables(struct kvm *kvm)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;
	struct kvm_vcpu *vcpu;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		kfree(to_trapless(vcpu)->file);
		to_trapless(vcpu)->file = NULL;
	}
	kfree(tl->vharts);
	kfree(tl->sources);
	kfree(tl->lines);
	tl->vharts = NULL;
	tl->sources = NULL;
	tl->lines = NULL;
}

static int trapless_alloc_tables(struct kvm *kvm)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;
	struct kvm_vcpu *vcpu;
	unsigned long i;
	void *file;

	tl->nr_vharts = 0;
	kvm_for_each_vcpu(i, vcpu, kvm)
		tl->nr_vharts = max_t(u32, tl->nr_vharts, vcpu->vcpu_id + 1);
	if (!tl->nr_vharts || tl->nr_vharts > XTRAPLESS_MAX_VHARTS)
		return -EINVAL;

	tl->vharts = kcalloc(tl->nr_vharts, XTL_VHART_SIZE, GFP_KERNEL_ACCOUNT);
	tl->sources = kcalloc(tl->nr_sources + 1, XTL_SOURCE_SIZE,
			      GFP_KERNEL_ACCOUNT);
	tl->lines = kcalloc(2, (XTRAPLESS_MAX_SOURCES + 1) / BITS_PER_BYTE,
			    GFP_KERNEL_ACCOUNT);
	if (!tl->vharts || !tl->sources || !tl->lines)
		return -ENOMEM;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		/* Allocations of a power of two are naturally aligned */
		file = kzalloc(XTL_FILE_SIZE, GFP_KERNEL_ACCOUNT);
		if (!file)
			return -ENOMEM;
		to_trapless(vcpu)->file = file;
		tl->vharts[vcpu->vcpu_id] = XTL_VHART_ENTRY_V |
					    virt_to_phys(file);
	}

	return 0;
}

/* Let the vCPUs use a domain that is complete. */
static void trapless_admit_vcpus(struct kvm *kvm)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		to_trapless(vcpu)->slot = XTL_HIFMAP_V |
				FIELD_PREP(XTL_HIFMAP_DOM, kvm->arch.trapless.domain) |
				FIELD_PREP(XTL_HIFMAP_VHART, vcpu->vcpu_id);
		/* To Smstateen the guest's CSRs are custom state */
		if (riscv_has_extension_unlikely(RISCV_ISA_EXT_SMSTATEEN))
			vcpu->arch.cfg.hstateen0 |= TRAPLESS_STATEEN0_C;
	}
}

static void trapless_resample_work(struct work_struct *work)
{
	struct kvm_trapless *tl = container_of(work, struct kvm_trapless,
					       resample);

	kvm_riscv_trapless_resample(container_of(tl, struct kvm,
						 arch.trapless));
}

/*
 * Make the VM an interrupt domain. The caller holds kvm->lock and the mutexes
 * of all vCPUs, none of which has run.
 */
int kvm_riscv_trapless_create_domain(struct kvm *kvm)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;
	struct trapless_domain *entry;
	int id, ret;

	id = trapless_alloc_domain();
	if (id < 0)
		return id;
	tl->domain = id;

	ret = trapless_alloc_tables(kvm);
	if (!ret)
		ret = kvm_riscv_setup_default_irq_routing(kvm,
							  tl->nr_sources + 1);
	if (ret) {
		trapless_free_tables(kvm);
		trapless_free_domain(id);
		return ret;
	}

	trapless_admit_vcpus(kvm);
	INIT_WORK(&tl->resample, trapless_resample_work);
	rcu_assign_pointer(trapless_vms[id], kvm);

	entry = &trapless_domains[id];
	entry->vhart_table = virt_to_phys(tl->vharts);
	entry->source_table = virt_to_phys(tl->sources);
	entry->lines = virt_to_phys(tl->lines);
	/* The controller sees a valid entry only when the rest is there */
	wmb();
	WRITE_ONCE(entry->config, XTL_DOMAIN_CONFIG_V |
		   FIELD_PREP(XTL_DOMAIN_CONFIG_SOURCES, tl->nr_sources) |
		   FIELD_PREP(XTL_DOMAIN_CONFIG_VHARTS, tl->nr_vharts));
	kvm_riscv_trapless_sync();

	/* Pairs with kvm_riscv_trapless_initialized() of injecting threads */
	smp_store_release(&tl->initialized, true);

	return 0;
}

void kvm_riscv_trapless_destroy_vm(struct kvm *kvm)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;

	if (!kvm_riscv_trapless_initialized(kvm))
		return;

	RCU_INIT_POINTER(trapless_vms[tl->domain], NULL);
	WRITE_ONCE(trapless_domains[tl->domain].config, 0);
	/* From here the controller does not touch the tables ... */
	kvm_riscv_trapless_sync();
	/* ... and interrupt handlers do not touch the vCPUs. */
	synchronize_rcu();
	cancel_work_sync(&tl->resample);

	trapless_free_tables(kvm);
	trapless_free_domain(tl->domain);
}

/* Entry of a source whose number has been checked */
u64 kvm_riscv_trapless_source(struct kvm *kvm, u32 source)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;

	return READ_ONCE(tl->sources[array_index_nospec(source,
							tl->nr_sources + 1)]);
}

/*
 * Inject an interrupt (KVM_IRQ_LINE, resample irqfds). The vCPU need not be
 * kicked: the controller tells the hart on which it runs, or notifies the host
 * if it waits. Callable in any context.
 */
int kvm_riscv_trapless_inject(struct kvm *kvm, u32 source, bool level)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;

	if (!kvm_riscv_trapless_initialized(kvm))
		return -EBUSY;
	if (!source || source > tl->nr_sources)
		return -EINVAL;

	if (kvm_riscv_trapless_source(kvm, source) &
	    (XTL_SOURCE_ENTRY_LEVEL | XTL_SOURCE_ENTRY_RESAMPLE))
		trapless_op(level ? XTL_OP_ASSERT : XTL_OP_DEASSERT,
			    tl->domain, source);
	else if (level)
		trapless_op(XTL_OP_EDGE, tl->domain, source);

	return 0;
}

/*
 * Inject an interrupt for an irqfd. Nobody lowers the line of an irqfd without
 * resampling, so it is an edge even for a level source.
 */
int kvm_riscv_trapless_inject_irqfd(struct kvm *kvm, u32 source)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;

	if (!kvm_riscv_trapless_initialized(kvm))
		return -EBUSY;
	if (!source || source > tl->nr_sources)
		return -EINVAL;

	trapless_op(kvm_riscv_trapless_source(kvm, source) & XTL_SOURCE_ENTRY_RESAMPLE ?
		    XTL_OP_ASSERT : XTL_OP_EDGE, tl->domain, source);

	return 0;
}

static struct kvm_vcpu *trapless_target(struct kvm *kvm, u64 entry)
{
	if (!(entry & XTL_SOURCE_ENTRY_V))
		return NULL;

	return kvm_get_vcpu_by_id(kvm, FIELD_GET(XTL_SOURCE_ENTRY_VHART, entry));
}

bool kvm_riscv_trapless_get_line(struct kvm *kvm, u32 source)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;

	source = array_index_nospec(source, tl->nr_sources + 1);

	return READ_ONCE(tl->lines[source / 64]) & BIT_ULL(source % 64);
}

/*
 * Write the entry of a source (0 removes it). What is pending and whether the
 * source is enabled move along with it. The caller holds kvm->lock and has
 * checked the arguments.
 */
int kvm_riscv_trapless_route(struct kvm *kvm, u32 source, u64 entry)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;
	u64 bit = BIT_ULL(source % 64);
	struct kvm_vcpu *from, *to;
	bool pending, enabled;

	from = trapless_target(kvm, kvm_riscv_trapless_source(kvm, source));
	to = trapless_target(kvm, entry);
	if (entry && !to)
		return -EINVAL;

	source = array_index_nospec(source, tl->nr_sources + 1);
	WRITE_ONCE(tl->sources[source], entry);
	/* From here nothing is posted where the source went before */
	kvm_riscv_trapless_sync();

	if (!(entry & (XTL_SOURCE_ENTRY_LEVEL | XTL_SOURCE_ENTRY_RESAMPLE)))
		atomic64_andnot(bit, trapless_word(tl->lines, source / 64 * 8));
	if (!from)
		return 0;
	/* What is pending may interrupt now that its priority is another */
	if (from == to)
		goto evaluate;

	pending = atomic64_fetch_andnot(bit,
			trapless_pending(to_trapless(from)->file, source)) & bit;
	enabled = atomic64_fetch_andnot(bit,
			trapless_enabled(to_trapless(from)->file, source)) & bit;
	if (!to)
		return 0;

	if (enabled)
		atomic64_or(bit, trapless_enabled(to_trapless(to)->file, source));
	/* If the old vCPU has claimed it, its completion looks at the line */
	if (pending)
		atomic64_or(bit, trapless_pending(to_trapless(to)->file, source));
evaluate:
	/* Tell the hart of the vCPU, or whoever would wake it */
	trapless_op(XTL_OP_EVAL, tl->domain, to->vcpu_id);

	return 0;
}

/* Pass on completions of resample sources which wait to be noticed. */
void kvm_riscv_trapless_resample(struct kvm *kvm)
{
	struct kvm_trapless *tl = &kvm->arch.trapless;
	unsigned int words = (XTRAPLESS_MAX_SOURCES + 1) / 64;
	unsigned int i, bit;
	atomic64_t *word;
	u64 bits;

	for (i = 0; i <= tl->nr_sources / 64; i++) {
		word = trapless_word(tl->lines, (words + i) * 8);
		/* Completions from here on are notified again */
		bits = atomic64_read(word) ? atomic64_xchg(word, 0) : 0;
		while (bits) {
			bit = __ffs64(bits);
			bits &= bits - 1;
			kvm_notify_acked_irq(kvm, 0, i * 64 + bit);
		}
	}
}

/* What hvtablebase holds on a hart that reads the domain table */
u64 kvm_riscv_trapless_tables(void)
{
	return XTL_HVTABLEBASE_V | virt_to_phys(trapless_domains) |
	       TRAPLESS_DOMAINS_ORDER;
}

int __init kvm_riscv_trapless_tables_init(void)
{
	unsigned int i;

	trapless_domains = alloc_pages_exact(TRAPLESS_DOMAINS * XTL_DOMAIN_SIZE,
					     GFP_KERNEL | __GFP_ZERO);
	if (!trapless_domains)
		return -ENOMEM;

	for (i = 0; i < TRAPLESS_DOMAINS; i++)
		trapless_owners[i] = INVALID_UID;

	return 0;
}

/* No hart reads the tables any more. */
void kvm_riscv_trapless_tables_exit(void)
{
	free_pages_exact(trapless_domains, TRAPLESS_DOMAINS * XTL_DOMAIN_SIZE);
	ida_destroy(&trapless_ida);
}

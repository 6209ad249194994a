// SPDX-License-Identifier: GPL-2.0-only
/*
 * Doorbells: KVM_IOEVENTFD without exits.
 *
 * What an ioeventfd says - address, length, perhaps a value - is what a doorbell
 * of Xvei matches. So each becomes an event of the VM, and a doorbell in the page
 * of its address; the leaf of the page in the G-stage is one of type DOORBELL.
 * Stores that match interrupt the host, all others exit as ever. The ioeventfd
 * stays on the bus: where there can be no doorbell, it works as without Xvei.
 *
 * A page can also have a shadow: a page of user space from which loads are
 * answered.
 *
 * All of this is protected by slots_lock, which the assignment of ioeventfds and
 * the change of memory slots hold; leaves are under mmu_lock, too.
 */

#include <linux/bitfield.h>
#include <linux/kvm_host.h>
#include <linux/kvm_vei.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <asm/kvm_vei.h>

struct vei_page {
	struct list_head	node;
	gfn_t			gfn;

	/* What the controller reads */
	void			*bell;
	struct page		*shadow;

	unsigned int		nr;
	DECLARE_BITMAP(slots, HAIOV_MAX_DOORBELLS);
};

/* What an ioeventfd keeps */
struct vei_bell {
	struct kvm		*kvm;
	struct kvm_vei_event	*event;
	struct vei_page		*page;
	unsigned int		slot;
};

static u64 *vei_word(struct vei_page *page, unsigned int offset)
{
	return page->bell + offset;
}

static u64 *vei_match(struct vei_page *page, unsigned int slot)
{
	return vei_word(page, HAIOV_BELL_MATCH + slot * HAIOV_BELL_MATCH_STRIDE);
}

static bool vei_page_used(struct vei_page *page)
{
	return page->nr || page->shadow;
}

/* The leaf is there exactly while it is of use and the page is no memory. */
static int vei_update_leaf(struct kvm *kvm, struct vei_page *page)
{
	gpa_t gpa = gfn_to_gpa(page->gfn);

	if (!vei_page_used(page) || kvm_is_visible_gfn(kvm, page->gfn)) {
		kvm_riscv_gstage_unmap_bell(kvm, gpa, page->bell);
		return 0;
	}

	return kvm_riscv_gstage_map_bell(kvm, gpa, page->bell);
}

static struct vei_page *vei_find_page(struct kvm *kvm, gfn_t gfn)
{
	struct vei_page *page;

	list_for_each_entry(page, &kvm->arch.vei.pages, node)
		if (page->gfn == gfn)
			return page;

	return NULL;
}

static struct vei_page *vei_create_page(struct kvm *kvm, gfn_t gfn)
{
	struct vei_page *page = kzalloc(sizeof(*page), GFP_KERNEL_ACCOUNT);

	if (!page)
		return NULL;
	page->bell = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!page->bell) {
		kfree(page);
		return NULL;
	}
	page->gfn = gfn;
	*vei_word(page, HAIOV_BELL_HEADER) = HAIOV_BELL_HEADER_V;
	list_add(&page->node, &kvm->arch.vei.pages);

	return page;
}

/* How many doorbells harts have to look at. */
static void vei_update_count(struct vei_page *page)
{
	u64 *header = vei_word(page, HAIOV_BELL_HEADER);
	unsigned long last;

	last = find_last_bit(page->slots, HAIOV_MAX_DOORBELLS);
	WRITE_ONCE(*header, (*header & ~HAIOV_BELL_HEADER_COUNT) |
		   FIELD_PREP(HAIOV_BELL_HEADER_COUNT,
			      last < HAIOV_MAX_DOORBELLS ? last + 1 : 0));
}

static void vei_free_page(struct kvm *kvm, struct vei_page *page)
{
	if (page->shadow) {
		unpin_user_pages_dirty_lock(&page->shadow, 1, true);
		account_locked_vm(kvm->mm, 1, false);
	}
	list_del(&page->node);
	free_page((unsigned long)page->bell);
	kfree(page);
}

/* A page that is not used has no leaf, and nobody reads it. */
static void vei_put_page(struct kvm *kvm, struct vei_page *page)
{
	if (!vei_page_used(page))
		vei_free_page(kvm, page);
}

/* The page of an address, a new one if need be: vei_put_page() it in the end. */
static struct vei_page *vei_get_page(struct kvm *kvm, u64 addr)
{
	struct vei_page *page = vei_find_page(kvm, gpa_to_gfn(addr));

	return page ? page : vei_create_page(kvm, gpa_to_gfn(addr));
}

static void vei_ring(struct vei_page *page, unsigned int slot, u64 addr,
		     int length, bool wildcard, u64 datamatch,
		     unsigned int request)
{
	u64 match = HAIOV_BELL_MATCH_V | HAIOV_BELL_MATCH_POST |
		    FIELD_PREP(HAIOV_BELL_MATCH_OFFSET, offset_in_page(addr)) |
		    FIELD_PREP(HAIOV_BELL_MATCH_REQUEST, request);

	if (!length)
		match |= HAIOV_BELL_MATCH_ANY;
	else
		match |= FIELD_PREP(HAIOV_BELL_MATCH_WIDTH, ilog2(length));
	if (!wildcard)
		match |= HAIOV_BELL_MATCH_DATA;

	WRITE_ONCE(*vei_word(page, HAIOV_BELL_VALUE +
			     slot * HAIOV_BELL_VALUE_STRIDE), datamatch);
	/* A store that finds the doorbell finds its value, too */
	smp_store_release(vei_match(page, slot), match);
}

/*
 * Add the doorbell of an ioeventfd. NULL if there can be none: stores to it exit
 * then, as they do without the extension.
 */
void *kvm_arch_add_ioeventfd(struct kvm *kvm, u64 addr, int length,
			     bool wildcard, u64 datamatch,
			     struct eventfd_ctx *eventfd)
{
	struct vei_bell *bell;
	struct vei_page *page;

	lockdep_assert_held(&kvm->slots_lock);

	if (!kvm_riscv_vei_available() ||
	    addr >> kvm_riscv_gstage_gpa_bits() ||
	    (length && !IS_ALIGNED(addr, length)))
		return NULL;

	bell = kzalloc(sizeof(*bell), GFP_KERNEL_ACCOUNT);
	if (!bell)
		return NULL;

	page = vei_get_page(kvm, addr);
	if (!page)
		goto free_bell;

	bell->kvm = kvm;
	bell->page = page;
	bell->slot = find_first_zero_bit(page->slots, HAIOV_MAX_DOORBELLS);
	if (bell->slot == HAIOV_MAX_DOORBELLS)
		goto put_page;

	bell->event = kvm_riscv_vei_create(kvm, eventfd);
	if (IS_ERR(bell->event))
		goto put_page;

	vei_ring(page, bell->slot, addr, length, wildcard, datamatch,
		 kvm_riscv_vei_request(bell->event));
	set_bit(bell->slot, page->slots);
	vei_update_count(page);
	page->nr++;
	if (vei_update_leaf(kvm, page)) {
		kvm_arch_remove_ioeventfd(bell);
		return NULL;
	}

	return bell;

put_page:
	vei_put_page(kvm, page);
free_bell:
	kfree(bell);
	return NULL;
}

void kvm_arch_remove_ioeventfd(void *arch)
{
	struct vei_bell *bell = arch;
	struct vei_page *page;

	if (!bell)
		return;

	page = bell->page;
	WRITE_ONCE(*vei_match(page, bell->slot), 0);
	clear_bit(bell->slot, page->slots);
	vei_update_count(page);
	page->nr--;
	/* Harts forget what they know of the page */
	vei_update_leaf(bell->kvm, page);
	kvm_riscv_vei_free(bell->kvm, bell->event);
	vei_put_page(bell->kvm, page);
	kfree(bell);
}

/* Pages have become memory, or are memory no more. */
void kvm_riscv_vei_update_region(struct kvm *kvm, u64 base_gfn, u64 npages)
{
	struct vei_page *page;

	list_for_each_entry(page, &kvm->arch.vei.pages, node)
		if (page->gfn >= base_gfn && page->gfn - base_gfn < npages)
			vei_update_leaf(kvm, page);
}

static int vei_set_shadow(struct kvm *kvm, struct vei_page *page,
			  struct kvm_vei_shadow *shadow)
{
	unsigned int i;
	int ret;

	if (page->shadow)
		return -EEXIST;

	ret = account_locked_vm(kvm->mm, 1, true);
	if (ret)
		return ret;
	ret = pin_user_pages_fast(shadow->page, 1, FOLL_WRITE | FOLL_LONGTERM,
				  &page->shadow);
	if (ret != 1) {
		account_locked_vm(kvm->mm, 1, false);
		return -EFAULT;
	}

	for (i = 0; i < HAIOV_BELL_LOADS_COUNT; i++)
		*vei_word(page, HAIOV_BELL_LOADS + i * HAIOV_BELL_LOADS_STRIDE) =
			shadow->loads[i];
	WRITE_ONCE(*vei_word(page, HAIOV_BELL_SHADOW), HAIOV_BELL_SHADOW_V |
		   page_to_phys(page->shadow));
	kvm->arch.vei.nr_shadows++;

	return 0;
}

/* With slots_lock held. */
int kvm_riscv_vei_set_shadow(struct kvm *kvm, u64 addr,
			     struct kvm_vei_shadow *shadow)
{
	struct vei_page *page;
	int ret;

	if (!PAGE_ALIGNED(addr) || addr >> kvm_riscv_gstage_gpa_bits() ||
	    !PAGE_ALIGNED(shadow->page))
		return -EINVAL;
	if (kvm->arch.vei.nr_shadows == KVM_DEV_VEI_MAX_SHADOWS)
		return -ENOSPC;

	page = vei_get_page(kvm, addr);
	if (!page)
		return -ENOMEM;
	ret = vei_set_shadow(kvm, page, shadow);
	if (!ret)
		ret = vei_update_leaf(kvm, page);
	vei_put_page(kvm, page);

	return ret;
}

/* With slots_lock held. */
int kvm_riscv_vei_add_clear(struct kvm *kvm, u64 addr, u64 offset)
{
	struct vei_page *page = vei_find_page(kvm, gpa_to_gfn(addr));
	unsigned int slot;

	if (!IS_ALIGNED(addr, 4) || !IS_ALIGNED(offset, 4) || offset >= PAGE_SIZE)
		return -EINVAL;
	if (!page || !page->shadow)
		return -ENOENT;
	slot = find_first_zero_bit(page->slots, HAIOV_MAX_DOORBELLS);
	if (slot == HAIOV_MAX_DOORBELLS)
		return -ENOSPC;

	/* Harts see the shadow before they see what changes it */
	smp_store_release(vei_match(page, slot),
			  HAIOV_BELL_MATCH_V | HAIOV_BELL_MATCH_CLEAR |
			  FIELD_PREP(HAIOV_BELL_MATCH_WIDTH, ilog2(4)) |
			  FIELD_PREP(HAIOV_BELL_MATCH_OFFSET, offset_in_page(addr)) |
			  FIELD_PREP(HAIOV_BELL_MATCH_UNIT, offset / 4));
	set_bit(slot, page->slots);
	vei_update_count(page);
	page->nr++;

	return vei_update_leaf(kvm, page);
}

/* The request of the first doorbell at an address. With slots_lock held. */
int kvm_riscv_vei_find_request(struct kvm *kvm, u64 addr, u64 *request)
{
	struct vei_page *page = vei_find_page(kvm, gpa_to_gfn(addr));
	unsigned int slot;
	u64 match;

	if (!page)
		return -ENOENT;

	for_each_set_bit(slot, page->slots, HAIOV_MAX_DOORBELLS) {
		match = READ_ONCE(*vei_match(page, slot));
		if (!(match & HAIOV_BELL_MATCH_POST) ||
		    FIELD_GET(HAIOV_BELL_MATCH_OFFSET, match) != offset_in_page(addr))
			continue;
		*request = FIELD_GET(HAIOV_BELL_MATCH_REQUEST, match);
		return 0;
	}

	return -ENOENT;
}

/* The VM has no ioeventfds and no G-stage any more. */
void kvm_riscv_vei_free_pages(struct kvm *kvm)
{
	struct vei_page *page, *next;

	list_for_each_entry_safe(page, next, &kvm->arch.vei.pages, node)
		vei_free_page(kvm, page);
}

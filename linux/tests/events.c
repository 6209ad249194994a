// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests that a guest posts by sgenvei, as a driver that knows Xvei does
 */

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "../include/uapi/linux/kvm_vei.h"
#include "contexts.h"
#include "tests.h"
#include "vm.h"

#define MANY	100000

/* The number of the request of a doorbell, or a negative error number */
static int64_t find_request(int device, uint64_t address)
{
	uint64_t request;
	struct kvm_device_attr a = {
		.group = KVM_DEV_VEI_GRP_REQUEST,
		.attr = address,
		.addr = (uintptr_t)&request,
	};

	return ioctl(device, KVM_GET_DEVICE_ATTR, &a) ? -errno : (int64_t)request;
}

/* The guest posts @request so often. Does anybody hear of it? */
static int post(volatile struct shared *guest, struct backend *b, uint64_t request,
		uint64_t count)
{
	uint64_t heard;

	guest->argument = request;
	guest->repeat = count;
	guest->command = EVENTS;
	idle(guest);
	usleep(20000);

	return read(b->eventfd, &heard, 8) == 8;
}

static void remove_doorbell(struct vm *vm, struct backend *b)
{
	struct kvm_ioeventfd bell = {
		.addr = b->address,
		.len = 4,
		.fd = b->eventfd,
		.flags = KVM_IOEVENTFD_FLAG_DEASSIGN,
	};

	if (ioctl(vm->fd, KVM_IOEVENTFD, &bell))
		fatal("remove a doorbell");
}

/*
 * A guest that has kicked too often is heard at the next tick. If the doorbell goes
 * before that, what it has kicked is heard nevertheless.
 */
static void test_removed(struct vm *vm)
{
	volatile struct shared *guest = vm->vcpus[0].shared;
	struct backend b;
	uint64_t heard;
	int i, found = 0;

	for (i = 0; i < 20; i++) {
		doorbell(vm, &b, DOORBELL + 16);
		guest->argument = DOORBELL + 16;
		guest->repeat = MANY / 10;
		guest->command = KICKS;
		while (guest->command)
			;
		if (read(b.eventfd, &heard, 8) == 8) {
			guest->repeat = 1;
			guest->command = KICKS;
			while (guest->command)
				;
			remove_doorbell(vm, &b);
			found += read(b.eventfd, &heard, 8) == 8;
		}
		close(b.eventfd);
	}
	CHECK(found == 20, "a kick is heard though its doorbell goes");
	printf("     %d of 20\n", found);
}

void test_events(void)
{
	struct kvm_create_device cd = { .type = KVM_DEV_TYPE_RISCV_VEI };
	struct backend first, second;
	volatile struct shared *guest;
	int64_t requests[2];
	struct vm vm;

	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_VEI) <= 0) {
		printf("skip: harts have no events\n");
		return;
	}
	create_domain(&vm, 1);
	doorbell(&vm, &first, DOORBELL);
	doorbell(&vm, &second, DOORBELL + 8);
	if (ioctl(vm.fd, KVM_CREATE_DEVICE, &cd))
		fatal("create the device of events");
	requests[0] = find_request(cd.fd, DOORBELL);
	requests[1] = find_request(cd.fd, DOORBELL + 8);
	CHECK(requests[0] >= 0 && requests[1] >= 0 && requests[0] != requests[1],
	      "doorbells have numbers");
	CHECK(find_request(cd.fd, DOORBELL + 4) == -ENOENT &&
	      find_request(cd.fd, DOORBELL + 4096) == -ENOENT,
	      "what is none has no number");

	guest = vm.vcpus[0].shared;
	spin(&vm, 0, 1);
	CHECK(post(guest, &first, requests[0], 1), "sgenvei rings a doorbell");
	CHECK(post(guest, &second, requests[1], 1), "and another one");
	CHECK(!post(guest, &first, requests[1], 1), "which is not the first");
	CHECK(post(guest, &first, requests[0], MANY) && !guest->command,
	      "a hundred thousand times");
	CHECK(!post(guest, &first, 255, 1) && !post(guest, &first, 0xffff, MANY),
	      "numbers that nobody has given");
	CHECK(!guest->exceptions && !vm.vcpus[0].stores, "without an exit");
	test_removed(&vm);
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
	close(first.eventfd);
	close(second.eventfd);
	close(cd.fd);
}

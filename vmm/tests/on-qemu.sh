#!/bin/sh
# Tests the VMM on QEMU's riscv64 machine with Debian's stock kernel as KVM host and as guest, with
# and without Sstc.
#
#   vmm/tests/on-qemu.sh            about three minutes; exit status 0 if everything held
#
# Needs what `trapless images` needs (it fetches Debian packages once); QEMU comes from the same
# tool tree.
set -eu
project=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build -q --manifest-path "$project/Cargo.toml" -p trapless-images --example tools
tools=${CARGO_TARGET_DIR:-$project/target}/debug/examples/tools
kernel=$("$tools" image kernel)
host=$("$tools" image host)

# Linux unpacks initial RAM disks that follow each other; the later one adds files.
archive() { # archive FOLDER OUTPUT
    "$tools" chroot sh -c "cd '$1' && find . | cpio --quiet -o -H newc" >"$2"
}
mkdir -p "$work/guest/workloads" "$work/host/workloads"
cp "$project/vmm/tests/on-qemu/guest" "$work/guest/workloads/check"
archive "$work/guest" "$work/guest.cpio"
cp "$project/vmm/tests/on-qemu/host" "$work/host/workloads/check"
cp "$work/guest.cpio" "$work/host/more-guest.cpio"
archive "$work/host" "$work/more-host.cpio"
# Each archive begins at a multiple of four bytes.
(cat "$host"; cat "$work/more-host.cpio") >"$work/host.cpio"

failed=0
for sstc in true false; do
    echo "== host with sstc=$sstc"
    timeout 1200 "$tools" chroot qemu-system-riscv64 -M virt -cpu "rv64,h=true,sstc=$sstc" -smp 2 -m 2G \
        -display none -serial stdio -monitor none -no-reboot -kernel "$kernel" -initrd "$work/host.cpio" \
        -append "console=ttyS0 quiet panic=-1 trapless.run=check trapless.sstc=$sstc" \
        </dev/null >"$work/log" 2>&1 || true
    tr -d '\r' <"$work/log" | grep -E '^(ok|FAIL) ' || true
    if grep -q '^FAIL ' "$work/log" || ! grep -q '^ok all' "$work/log"; then
        failed=1
        cp "$work/log" "on-qemu-sstc-$sstc.log"
        echo "FAILED: see on-qemu-sstc-$sstc.log"
    fi
done
exit $failed

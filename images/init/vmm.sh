# Starting a guest and waiting for its end. The workload runs in it; KVM's statistics are printed when it has ended.

# vmm_start [tap INTERFACE]: starts the guest in the background
vmm_start() {
    cpus=${trapless_cpus:-1}
    memory=${trapless_memory:-256M}
    vmm=${trapless_vmm:-trapless}
    append="quiet panic=-1 cryptomgr.notests console=ttyS0 trapless.workload=$name$parameters"
    case $vmm in
    trapless)
        trapless-vmm --kernel /boot/Image --initrd /boot/guest.cpio --cpus "$cpus" --memory "$memory" \
            --no-reboot ${2:+--tap "$2"} --append "$append" </dev/null &
        ;;
    qemu)
        qemu-system-riscv64 -machine virt,accel=kvm -cpu host -smp "$cpus" -m "$memory" -nodefaults -no-reboot \
            -display none -serial stdio -kernel /boot/Image -initrd /boot/guest.cpio \
            ${2:+-netdev "tap,id=n,ifname=$2,script=no,downscript=no" -device virtio-net-device,netdev=n} \
            -append "$append" </dev/null &
        ;;
    *)
        echo "unknown VMM '$vmm' on the command line: use trapless.vmm=trapless or trapless.vmm=qemu"
        return 2
        ;;
    esac
    vmm_pid=$!
    # An open file of a virtual machine's statistics keeps them readable after its end.
    kvm_statistics=
    while kill -0 "$vmm_pid" 2>/dev/null; do
        for folder in "/sys/kernel/debug/kvm/$vmm_pid-"*; do
            if [ -e "$folder/exits" ]; then
                kvm_statistics=$folder
                exec 9<"$folder/exits"
                return 0
            fi
        done
        sleep 0.02
    done
}

# Waits for the guest's end; the exit status is the VMM's.
vmm_wait() {
    wait "$vmm_pid"
    vmm_status=$?
    if [ -n "$kvm_statistics" ]; then
        for file in "$kvm_statistics"/*; do
            # Per-vCPU folders repeat what is summed here.
            if [ -f "$file" ]; then
                read -r value <"$file" && echo "${file##*/} $value"
            fi
        done >/run/kvm 2>/dev/null
        dump kvm /run/kvm
        exec 9<&-
    fi
    return "$vmm_status"
}

# For scripts whose programs `trapless-bench` times on its own clock, between markers.
# set.only=NAME,... chooses some.

wanted() { case ,${only:-$1}, in *",$1,"*) ;; *) return 1 ;; esac }

# measure NAME COMMAND...
measure() {
    name=$1
    shift
    say "begin host $name"
    "$@" >/run/output 2>&1
    status=$?
    say "end host $name status=$status"
    if [ "$status" != 0 ]; then dump "$name" /run/output; fi
    rm -f /run/output
}

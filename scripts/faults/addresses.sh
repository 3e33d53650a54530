#!/usr/bin/env bash
# Checks that a job starts on hosts with many addresses, whichever of them joins the hosts.
#
#   scripts/faults/addresses.sh
#
# Two hosts made of network namespaces: nine devices of which the last joins the hosts; 64 addresses, of which the first
# or the last joins them; 101 addresses; the host's address on a bridge br-ex or routed to the loopback; the same
# address on both hosts. In each case a job must start, without a warning about strangers. The script prints the time of
# each start. It takes about a minute.
#
# Needs go, root, ip (iproute2) and network namespaces.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
a=tf$$a b=tf$$b switch=tf$$s
down() { for ns in $a $b $switch; do ip netns del "$ns" 2>/dev/null || true; done; }
trap 'down; rm -rf "$work"' EXIT
go build -o "$work/" ./cmd/treerun ./examples/hello
export XDG_CACHE_HOME=$work/cache
failed=0

up() {
    for ns in $a $b $switch; do
        ip netns add "$ns"
        ip -n "$ns" link set lo up
        ip netns exec "$ns" sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
    done
}
# wire DEV [apart]: a device of both hosts on one switch, or on a switch each.
wire() {
    for ns in $a $b; do
        local bridge=s$1
        [ "${2:-}" = "" ] || bridge=s$1${ns: -1}
        ip -n $switch link show "$bridge" > /dev/null 2>&1 || ip -n $switch link add "$bridge" type bridge
        ip -n $switch link set "$bridge" up
        ip -n $switch link add "p$1${ns: -1}" type veth peer name "$1" netns "$ns"
        ip -n $switch link set "p$1${ns: -1}" master "$bridge" up
        ip -n "$ns" link set "$1" up
    done
}
# give DEV A B: an address of the device on each host.
give() {
    ip -n $a addr add "$2" dev "$1"
    ip -n $b addr add "$3" dev "$1"
}
fault() {
    echo "fault: $*" >&2
    sed 's/^/    /' "$work/out" >&2
    failed=1
}
# starts WHAT FLAGS...: checks that a job on both hosts starts, without warnings.
starts() {
    local what=$1 begin=$EPOCHREALTIME
    shift
    if ! timeout 60 ip netns exec $a "$work/treerun" --start-timeout 15 -H $a:1,$b:1 --launch-agent 'ip netns exec {host}' \
        "$@" "$work/hello" > "$work/out" 2>&1; then
        fault "$what: the job does not start"
    elif grep -q 'refused' "$work/out"; then
        fault "$what: a warning about strangers"
    fi
    echo "$what: $(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f s", b - a }')"
}
# apart N: N networks of one device that do not join the hosts.
apart() {
    wire eth0 apart
    for k in $(seq "$1"); do give eth0 "10.$k.0.1/24" "10.$k.0.2/24"; done
}
# nodes SEED: treeruns started by hand, one per host.
nodes() {
    head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' > "$work/key"
    chmod 600 "$work/key"
    local flags=(--nnodes 2 --np 2 --seed "$1:29411" --key-file "$work/key" --start-timeout 15)
    timeout 60 ip netns exec $b "$work/treerun" --node-rank 1 "${flags[@]}" "$work/hello" > "$work/out1" 2>&1 &
    timeout 60 ip netns exec $a "$work/treerun" --node-rank 0 "${flags[@]}" "$work/hello" > "$work/out" 2>&1 ||
        fault "--nnodes --seed $1: the job does not start"
    wait
}

up
for k in 1 2 3 4 5 6 7 8; do
    wire eth$k apart
    give eth$k "10.$k.0.1/24" "10.$k.0.2/24"
done
wire zz0
give zz0 10.200.0.1/24 10.200.0.2/24
starts "nine devices, the last one joins"
nodes 10.200.0.1
down

up
wire aa0
give aa0 10.200.0.1/24 10.200.0.2/24
starts "one address"
apart 63
starts "64 addresses, the first one joins"
down

up
apart 63
wire zz0
give zz0 10.200.0.1/24 10.200.0.2/24
starts "64 addresses, the last one joins"
down

up
wire eth0 apart
for k in $(seq 100); do give eth0 "10.99.1.$k/16" "10.99.2.$k/16"; done
wire zz0
give zz0 10.200.0.1/24 10.200.0.2/24
starts "101 addresses, the last one joins"
ip netns exec $a "$work/treerun" check > "$work/out" 2>&1 || true
grep -q 'leave out 37 of eth0' "$work/out" || fault "check does not count the addresses that are left out"
down

up
wire eth0
wire eth1 apart
for ns in $a $b; do
    ip -n $ns link add br-ex type bridge
    ip -n $ns link set br-ex up
    ip -n $ns link set eth0 master br-ex
done
give br-ex 10.99.0.1/24 10.99.0.2/24
give eth1 172.30.1.1/24 172.30.2.1/24
starts "br-ex has the host's address"
nodes 10.99.0.1
down

up
n=0
for ns in $a $b; do
    ip -n $switch link add r$n type veth peer name eth0 netns $ns
    ip -n $switch link set r$n up
    ip -n $ns link set eth0 up
    ip -n $ns addr add 192.168.5.$((2 * n + 1))/31 dev eth0
    ip -n $switch addr add 192.168.5.$((2 * n))/31 dev r$n
    ip -n $ns addr add 10.255.0.$((n + 1))/32 dev lo
    ip -n $ns route add default via 192.168.5.$((2 * n)) src 10.255.0.$((n + 1))
    ip -n $switch route add 10.255.0.$((n + 1))/32 via 192.168.5.$((2 * n + 1))
    n=1
done
ip netns exec $switch sysctl -q -w net.ipv4.ip_forward=1
ip -n $switch rule add from all iif r0 to 192.168.5.2/31 prohibit
ip -n $switch rule add from all iif r1 to 192.168.5.0/31 prohibit
starts "lo has the host's address"
down

up
wire ens3 apart
wire ens7
give ens3 192.168.100.1/24 192.168.100.1/24
give ens7 192.168.1.12/24 192.168.1.13/24
starts "the same address on both hosts" --port-range 5000-5007 -H $a:2,$b:2
down

[ $failed = 0 ] && echo "addresses: all jobs start"
exit $failed

//! `--network bridge` and `-p`, in a network namespace that takes the host's place.

use super::stores::apart;
use super::{image_of, nothing_is_left, programs, refused};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(published_ports).unlike_runc().needs(plugins),
    case!(failed_starts_leave_nothing).unlike_runc().needs(plugins),
    case!(wrong_ports).unlike_runc().needs(programs),
];

/// Checks that the plugins and what they execute are there.
fn plugins() -> Result<(), String> {
    programs()?;
    let places = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"].map(Path::new);
    let has_all =
        |at: &&Path| ["bridge", "host-local", "portmap"].iter().all(|name| at.join(name).exists());
    match places.iter().any(has_all) && Path::new("/usr/sbin/iptables").exists() {
        true => Ok(()),
        false => Err("no CNI plugins: apt-get install containernetworking-plugins iptables".into()),
    }
}

/// What each script begins with: `get ADDRESS` asks until a server answers, `left` lists what the plugins have left.
const BEGIN: &str = "mount -t tmpfs run /run; busybox ip link set lo up
    get() { i=0; until busybox wget -qO- \"http://$1/hostname\"; do sleep 0.1; [ $((i += 1)) -lt 50 ]; done; }
    left() { find /run/dayfly-net/namespaces /run/dayfly-net/ports -mindepth 1; iptables -t nat -S | grep \"$1\" || :
        find /run/dayfly-net/addresses -name '10.*'; busybox ip -o link | grep -c veth || :; }";

fn published_ports(bed: &Bed) {
    image_of(bed, vec![]);
    let id = bed.id();
    let script = format!(
        "{BEGIN}
        R run -d --name {id} -p 8080:80 -p127.0.0.1:9090:80/tcp --image test busybox httpd -f -p 80 -h /etc >&2
        get 127.0.0.1:8080; get 127.0.0.1:9090; get 10.91.0.1:8080
        for user in host auto; do
            R run --network bridge --userns $user --image test busybox wget -qO- http://10.91.0.2/hostname
        done
        # A container of the same name in another store has a network of its own.
        cp -a $DAYFLY_STORE /run/store; rm -r /run/store/containers
        DAYFLY_STORE=/run/store R --root /run/other run --name {id} --network bridge --image test true >&2 || :
        get 127.0.0.1:8080; R rm -f {id}; left {id}"
    );
    let outcome = apart(bed, &["-n"], &script).run().ok();
    assert_eq!(outcome.stdout, format!("{id}\n").repeat(6) + "0\n", "{outcome}");
    nothing_is_left(bed);
}

fn failed_starts_leave_nothing(bed: &Bed) {
    image_of(bed, vec![]);
    let id = bed.id();
    let script = format!(
        "{BEGIN}
        R run -d --name {id} -p 8080:80 --image test sleep 1000 >&2
        busybox nc -l -p 7070 & other=$!; sleep 0.2
        ! R run --name {id}-2 -p 8080:80 --image test true
        ! R run --name {id}-3 -p 7070:80 --image test true
        ! R --root /run/other run --name {id} --network bridge --image test true
        ! CNI_PATH=/nowhere R run -p 8081:80 --image test true
        R exec {id} busybox ip -o -4 addr show eth0 | grep -o 10.91.0.2/; R rm -f {id}; left {id}; kill $other"
    );
    let outcome = apart(bed, &["-n"], &script).run().ok();
    assert_eq!(outcome.stdout, "10.91.0.2/\n0\n", "{outcome}");
    for text in [
        &format!("port 8080 is published by container {id}\n"),
        "publish port 7070: address already in use\n",
        "no CNI plugin bridge in /nowhere",
    ] {
        assert!(outcome.stderr.contains(text), "lacks {text}: {outcome}");
    }
    nothing_is_left(bed);
}

fn wrong_ports(bed: &Bed) {
    image_of(bed, vec![]);
    for port in ["80", "0:80", "80:70000", "::1:80:80", "80:80/icmp", "80:80:80"] {
        refused(bed, &["-p", port], "must be [ADDRESS:]PORT:PORT or PORT:PORT/udp");
    }
    refused(bed, &["-p", "8080:80", "--network", "none"], "--publish needs --network bridge");
}

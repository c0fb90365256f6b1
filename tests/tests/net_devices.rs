//! Network devices of the host that are moved into the container.

use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(moved_under_its_name).needs(pairs),
    case!(moved_under_another_name).needs(pairs),
    // Before runc moves the device, it sets the device down, which removes the IPv6 addresses.
    case!(addresses_are_kept).needs(addresses).unlike_runc(),
    case!(traffic_passes).needs(pairs),
    case!(several_at_once).needs(pairs),
    case!(numbered_by_a_template).needs(pairs).unlike_runc(),
    case!(into_a_joined_namespace).needs(pairs),
    case!(into_a_user_namespace).needs(pairs),
    case!(parameters_of_the_device).needs(pairs),
    case!(gone_with_the_container).needs(pairs),
    case!(none_is_moved_where_one_is_missing).needs(pairs).unlike_runc(),
    case!(a_name_that_is_taken).needs(pairs).unlike_runc(),
    case!(loopback_stays).unlike_runc(),
    case!(not_without_a_network_namespace),
    case!(names_that_can_be_none),
    case!(no_maker_of_networks).unlike_runc(),
];

/// Checks that the kernel has veth devices.
pub fn pairs() -> Result<(), String> {
    let pair = Pair::new();
    drop(pair?);
    Ok(())
}

/// Checks that `ip` can set the addresses of [`addresses_are_kept`]: busybox's `ip` supports neither `nodad` nor
/// lifetimes.
fn addresses() -> Result<(), String> {
    let pair = Pair::new()?;
    for words in
        ["fd87::2/64 dev DEVICE nodad", "10.88.0.2/24 valid_lft 1000 preferred_lft 1000 dev DEVICE"]
    {
        ip(&format!("addr add {}", words.replace("DEVICE", &pair.device)))?;
    }
    Ok(())
}

fn ip(words: &str) -> Result<String, String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.map_err(|error| format!("no ip: apt-get install iproute2 ({error})"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Returns the names of the host's network devices.
fn links() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net").expect("devices").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn attribute(link: &str, name: &str) -> String {
    let path = format!("/sys/class/net/{link}/{name}");
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// A pair of connected devices: one for the container, one that stays on the host. Removed when dropped.
pub struct Pair {
    /// The container's device.
    pub device: String,
    peer: String,
}

impl Pair {
    /// Makes a new pair.
    pub fn new() -> Result<Self, String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("df{}-{number}", std::process::id());
        Self::named(&format!("{name}a"), &format!("{name}b"))
    }

    pub fn named(device: &str, peer: &str) -> Result<Self, String> {
        let pair = Self { device: device.to_owned(), peer: peer.to_owned() };
        ip(&format!("link add {} type veth peer name {}", pair.device, pair.peer))?;
        if !links().contains(&pair.peer) {
            // busybox lets the kernel choose the name.
            let index = attribute(&pair.device, "iflink");
            let peer = links().into_iter().find(|link| attribute(link, "ifindex") == index);
            ip(&format!("link set {} name {}", peer.ok_or("no peer")?, pair.peer))?;
        }
        Ok(pair)
    }

    pub fn is_on_the_host(&self) -> bool {
        ip(&format!("link show {}", self.device)).is_ok()
    }

    /// Returns the present name and alias of the device, if it is on the host.
    pub fn link_of_peer(&self) -> String {
        let index = attribute(&self.peer, "ifindex");
        let link = links().into_iter().find(|link| attribute(link, "iflink") == index);
        link.map_or_else(String::new, |link| format!("{link}: {}", attribute(&link, "ifalias")))
    }

    fn ip(&self, words: &str) {
        ip(&words.replace("DEVICE", &self.device).replace("PEER", &self.peer)).expect("ip");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = ip(&format!("link delete {}", self.peer));
    }
}

fn pair() -> Pair {
    Pair::new().expect("veth")
}

fn moved_under_its_name(bed: &Bed) {
    let pair = pair();
    pair.ip("link set DEVICE mtu 1234");
    let script = format!("cat /sys/class/net/{0}/mtu /sys/class/net/{0}/flags", pair.device);
    let c = bed
        .bundle()
        .set("/linux/netDevices", json!({ &pair.device: {} }))
        .sh(&format!("{script}; sleep 1000"))
        .make()
        .detached();
    let outcome = c.sh(&script).ok();
    let lines = outcome.lines();
    assert_eq!(lines[0], "1234");
    let flags = u32::from_str_radix(lines[1].trim_start_matches("0x"), 16).expect("flags");
    assert_eq!(flags & 1, 1, "it is up");
    assert!(!pair.is_on_the_host());
}

fn moved_under_another_name(bed: &Bed) {
    let pair = pair();
    let c = bed
        .bundle()
        .set("/linux/netDevices", json!({ &pair.device: { "name": "web0" } }))
        .sh("ls /sys/class/net | sort")
        .make();
    assert_eq!(c.run().ok().stdout, "lo\nweb0\n");
}

fn addresses_are_kept(bed: &Bed) {
    let pair = pair();
    for words in [
        "addr add 10.87.0.2/24 dev DEVICE",
        "addr add 10.87.0.3/24 dev DEVICE",
        "addr add fd87::2/64 dev DEVICE nodad",
        // The first of these two addresses has host scope and the second a limited lifetime, so neither is kept.
        "addr add 10.87.9.9/32 scope host dev DEVICE",
        "addr add 10.88.0.2/24 valid_lft 1000 preferred_lft 1000 dev DEVICE",
        "link set DEVICE up",
        "link set PEER up",
    ] {
        pair.ip(words);
    }
    let c = bed
        .bundle()
        .set("/linux/netDevices", json!({ &pair.device: { "name": "web0" } }))
        .sh("ip -o addr show dev web0 | awk '{print $3, $4}'")
        .make();
    let outcome = c.run().ok();
    let lines: Vec<_> = outcome.lines().into_iter().filter(|line| !line.contains("fe80")).collect();
    assert_eq!(lines, ["inet 10.87.0.2/24", "inet 10.87.0.3/24", "inet6 fd87::2/64"]);
}

fn traffic_passes(bed: &Bed) {
    let pair = pair();
    pair.ip("addr add 10.86.0.2/24 dev DEVICE");
    pair.ip("addr add 10.86.0.1/24 dev PEER");
    pair.ip("link set PEER up");
    let c = bed
        .bundle()
        .set("/linux/netDevices", json!({ &pair.device: {} }))
        .push("/process/capabilities/effective", json!("CAP_NET_RAW"))
        .push("/process/capabilities/permitted", json!("CAP_NET_RAW"))
        .push("/process/capabilities/bounding", json!("CAP_NET_RAW"))
        .sh("busybox ping -c 1 -W 5 10.86.0.1 | grep -c 'bytes from 10.86.0.1'")
        .make();
    assert_eq!(c.run().ok().stdout, "1\n");
}

fn several_at_once(bed: &Bed) {
    let (one, two) = (pair(), pair());
    let c = bed
        .bundle()
        .set(
            "/linux/netDevices",
            json!({ &one.device: { "name": "b0" }, &two.device: { "name": "a0" } }),
        )
        .sh("ls /sys/class/net | sort")
        .make();
    assert_eq!(c.run().ok().stdout, "a0\nb0\nlo\n");
}

fn numbered_by_a_template(bed: &Bed) {
    let (one, two) = (pair(), pair());
    let template = json!({ "name": "eth%d" });
    let c = bed
        .bundle()
        .set("/linux/netDevices", json!({ &one.device: template, &two.device: template }))
        .sh("ls /sys/class/net | sort")
        .make();
    assert_eq!(c.run().ok().stdout, "eth0\neth1\nlo\n");
}

fn into_a_joined_namespace(bed: &Bed) {
    let pair = pair();
    let first = bed.bundle().make().detached();
    let second = bed
        .bundle()
        .join_namespace("network", &format!("/proc/{}/ns/net", first.pid()))
        .set("/linux/netDevices", json!({ &pair.device: { "name": "web0" } }))
        .make()
        .detached();
    assert_eq!(first.sh("ls /sys/class/net | sort").ok().stdout, "lo\nweb0\n");
    second.delete_force().ok();
    assert_eq!(first.sh("ls /sys/class/net | sort").ok().stdout, "lo\nweb0\n");
}

fn into_a_user_namespace(bed: &Bed) {
    let pair = pair();
    pair.ip("addr add 10.85.0.2/24 dev DEVICE");
    let c = mapped(bed)
        .set("/linux/netDevices", json!({ &pair.device: { "name": "web0" } }))
        .sh("ip -o -4 addr show dev web0 | awk '{print $4}'")
        .make();
    assert_eq!(c.run().ok().stdout, "10.85.0.2/24\n");
}

fn parameters_of_the_device(bed: &Bed) {
    // The device exists before kernel parameters are written.
    let pair = pair();
    let c = bed
        .bundle()
        .set("/linux/netDevices", json!({ &pair.device: { "name": "web0" } }))
        .set("/linux/sysctl", json!({ "net.ipv4.conf.web0.log_martians": "1" }))
        .sh("cat /proc/sys/net/ipv4/conf/web0/log_martians")
        .make();
    assert_eq!(c.run().ok().stdout, "1\n");
}

fn gone_with_the_container(bed: &Bed) {
    // A virtual device is removed with its namespace; only physical devices return to the host.
    let pair = pair();
    let c = bed.bundle().set("/linux/netDevices", json!({ &pair.device: {} })).make().detached();
    c.delete_force().ok();
    let peer = format!("link show {}", pair.peer);
    dayfly_tests::wait::until_true("the pair to be gone", || ip(&peer).is_err());
}

fn none_is_moved_where_one_is_missing(bed: &Bed) {
    let pair = pair();
    pair.ip("addr add 10.84.0.2/24 dev DEVICE");
    pair.ip("link set DEVICE up");
    let c =
        bed.bundle().set("/linux/netDevices", json!({ &pair.device: {}, "zz-no-such": {} })).make();
    let outcome = c.create().fails("move netDevice zz-no-such: link not found for interface");
    assert!(outcome.stderr.contains("no such device"), "{outcome}");
    assert!(!c.exists());
    let state = ip(&format!("-o addr show dev {}", pair.device)).expect("still there");
    assert!(state.contains("10.84.0.2/24"), "{state}");
    assert!(ip(&format!("link show {}", pair.device)).expect("link").contains(",UP"));
}

fn a_name_that_is_taken(bed: &Bed) {
    let pair = pair();
    pair.ip("addr add 10.83.0.2/24 dev DEVICE");
    pair.ip("link set DEVICE up");
    let c = bed.bundle().set("/linux/netDevices", json!({ &pair.device: { "name": "lo" } })).make();
    let outcome = c.create().fails("name not available");
    assert!(outcome.stderr.contains("file exists"), "{outcome}");
    assert!(!c.exists());
    // The device is unchanged.
    let state = ip(&format!("-o addr show dev {}", pair.device)).expect("still there");
    assert!(state.contains("10.83.0.2/24"), "{state}");
    assert!(ip(&format!("link show {}", pair.device)).expect("link").contains(",UP"));
}

fn loopback_stays(bed: &Bed) {
    let c = bed.bundle().set("/linux/netDevices", json!({ "lo": { "name": "other" } })).make();
    c.create().fails("fail to move network device");
    assert!(!c.exists());
}

fn not_without_a_network_namespace(bed: &Bed) {
    let c = bed
        .bundle()
        .without_namespace("network")
        .set("/linux/netDevices", json!({ "eth7": {} }))
        .make();
    c.create().fails("unable to move network devices without a NET namespace");
}

fn names_that_can_be_none(bed: &Bed) {
    for devices in [json!({ "a/b": {} }), json!({ "eth7": { "name": "a b" } })] {
        let c = bed.bundle().set("/linux/netDevices", devices).make();
        c.create().fails("invalid network device name");
    }
}

fn no_maker_of_networks(bed: &Bed) {
    let c = bed.bundle().set("/linux/netDevices", json!({ "eth7": {} })).make();
    let plan = bed.call(&["plan", c.bundle.to_str().expect("path")]).run().ok();
    assert!(plan.stdout.contains("move network devices eth7"), "{plan}");
    assert!(!plan.lines().iter().any(|line| line.ends_with(" make network")), "{plan}");
}

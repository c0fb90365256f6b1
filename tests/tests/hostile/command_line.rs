//! Command-line and configuration values with unintended effects.

use super::{Evidence, attacks};
use crate::net_devices::{Pair, pairs};
use dayfly_tests::bed::Bed;
use dayfly_tests::cgroups;
use dayfly_tests::runner::Case;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = attacks! {
    exec_inherits_capabilities without "inheritable",
    exec_as_a_number_and_more without "strict-integers" unlike_runc,
    id_climbs_out without "id-check",
    exec_cgroup_climbs_out without "cgroup-path",
    overlong_netlink_attribute without "lengths" (needs pairs),
};

fn exec_inherits_capabilities(bed: &Bed) -> Evidence {
    let c = bed.bundle().make().detached();
    let sets =
        c.exec_with(&["--cap", "CAP_NET_RAW"], &["grep", "CapInh", "/proc/self/status"]).ok();
    if sets.stdout != "CapInh:\t0000000000000000\n" {
        return Some(sets.stdout);
    }
    // The second container has inheritable capabilities: bit 13 must be in neither set.
    let inheritable = json!(["CAP_CHOWN"]);
    let c = bed.bundle().set("/process/capabilities/inheritable", inheritable).make().detached();
    let script = "grep -E 'Cap(Inh|Amb)' /proc/self/status";
    let sets = c.exec_with(&["--cap", "CAP_NET_RAW"], &["sh", "-c", script]).stdout;
    let expected = "CapInh:\t0000000000000001\nCapAmb:\t0000000000000000\n";
    (sets != expected).then_some(sets)
}

fn exec_as_a_number_and_more(bed: &Bed) -> Evidence {
    let c = bed.bundle().set("/process/user/uid", json!(1000)).make().detached();
    for user in ["1", "1:1", "1x", "x", "", " 1", "-1", "1:x", "4294967296", "4294967297:1"] {
        let outcome = c.exec_with(&["--user", user], &["id", "-u"]);
        if outcome.stdout == "0\n" {
            return Some(format!("{user:?} is root"));
        }
    }
    None
}

fn id_climbs_out(bed: &Bed) -> Evidence {
    let id = bed.id();
    let outside = format!("../{id}");
    let bundle = bed.bundle().set("/linux/cgroupsPath", json!(cgroups::path_of(&id)));
    let c = bundle.make_as(&outside);
    let _ = c.create();
    let place = bed.dir.join(&id);
    let made = place.exists();
    let _ = c.delete_force();
    made.then(|| format!("a record was made at {}", place.display()))
}

fn exec_cgroup_climbs_out(bed: &Bed) -> Evidence {
    let (c, other) = (bed.bundle().make().detached(), bed.bundle().make().detached());
    let path = format!("../{}", other.id);
    let outcome = c.exec_with(&["--cgroup", &path], &["cat", "/proc/self/cgroup"]);
    let outside = outcome.stdout.contains("/../");
    outside.then(|| format!("it runs in another container's cgroup: {}", outcome.stdout))
}

/// A network device's name becomes a netlink attribute with a 16-bit length. If the name is longer, the length wraps,
/// and the rest of the name would be parsed as further attributes.
fn overlong_netlink_attribute(bed: &Bed) -> Evidence {
    /// The part of the name that the kernel reads as the name, because the length has wrapped.
    const NAME: &str = "hostile8";
    /// The header of an attribute IFLA_IFALIAS with a length of 257 bytes, including the header. The flag
    /// NLA_F_NET_BYTEORDER is set so that no byte is NUL.
    const HEADER: &str = "\u{1}\u{1}\u{14}@";
    let pair = Pair::new().expect("veth");
    let alias = "injected".repeat(32);
    let mut name = format!("{NAME}{HEADER}{alias}");
    // The length includes the terminating NUL.
    let filler = 0x1_0000 + NAME.len() - 1 - name.len();
    name.push_str(&"x".repeat(filler));
    let c = bed
        .bundle()
        .set("/linux/netDevices", json!({ &pair.device: { "name": name } }))
        .args(&["/bin/true"])
        .make();
    let _ = c.run();
    let link = pair.link_of_peer();
    link.contains("injected").then(|| format!("an attribute inside the name was heeded: {link}"))
}

//! Pairs of properties of which a configuration sets one half only, or halves that contradict each other. Where runc
//! refuses such a configuration, dayfly refuses it with runc's text; it never completes one half with the host's values.

use crate::userns::{mapped, owned_by_the_mapped_user};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(id_mappings_of_one_kind),
    case!(id_mappings_without_a_user_namespace).unlike_runc(),
    case!(id_mappings_of_a_joined_user_namespace),
    case!(id_mappings_that_the_kernel_refuses).unlike_runc(),
    case!(domainname_and_its_sysctl).unlike_runc(),
    case!(ambient_capabilities_that_are_not_inheritable).unlike_runc(),
];

const MAPS: &str = "cat /proc/self/uid_map /proc/self/gid_map";

fn map(host: u32, size: u32) -> Value {
    json!([{ "containerID": 0, "hostID": host, "size": size }])
}

/// A user namespace with mappings of users only had the host's groups, and the reverse (runtime-spec,
/// config-linux.md, "User namespace mappings").
fn id_mappings_of_one_kind(bed: &Bed) {
    for (property, kind) in [("gidMappings", "gid"), ("uidMappings", "uid")] {
        for empty in [None, Some(json!([]))] {
            let pointer = format!("/linux/{property}");
            let bundle = mapped(bed).unset(&pointer);
            let bundle = match empty {
                None => bundle,
                Some(empty) => bundle.set(&pointer, empty),
            };
            let c = bundle.make();
            let _ =
                c.create().fails(&format!("user namespaces enabled, but no {kind} mappings found"));
            assert!(!c.exists());
        }
    }
}

/// As in runc and crun, mappings have no effect without a user namespace. dayfly warns.
fn id_mappings_without_a_user_namespace(bed: &Bed) {
    let bundle = bed.bundle().set("/linux/uidMappings", map(1000, 1)).sh(MAPS);
    for bundle in [bundle, mapped(bed).without_namespace("user").sh(MAPS)] {
        let outcome = bundle.make().run().ok();
        for line in outcome.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words, ["0", "0", "4294967295"], "{outcome}");
        }
        assert!(outcome.log().contains("are ignored: there is no user namespace"), "{outcome}");
    }
}

/// Engines pass the mappings of a pod's user namespace to the containers that join it. Other mappings would be taken
/// for the namespace's by whoever reads the configuration.
fn id_mappings_of_a_joined_user_namespace(bed: &Bed) {
    let first = mapped(bed).make().detached();
    let path = format!("/proc/{}/ns/user", first.pid());
    let joining = || -> Bundle<'_> {
        let second = bed.bundle();
        owned_by_the_mapped_user(&second.rootfs());
        second.push("/linux/namespaces", json!({ "type": "user", "path": path })).sh(MAPS)
    };
    let (uids, gids) = (map(100_000, 65_536), map(200_000, 65_536));
    let same = joining().set("/linux/uidMappings", uids.clone()).set("/linux/gidMappings", gids);
    let outcome = same.make().run().ok();
    assert!(outcome.stdout.contains("100000      65536"), "{outcome}");
    for other in [map(100_000, 65_535), map(0, 1), json!([])] {
        let c = joining()
            .set("/linux/uidMappings", uids.clone())
            .set("/linux/gidMappings", other)
            .make();
        let _ = c.run().fails("both namespace path and non-matching mapping specified");
        c.assert_gone("run");
    }
}

/// An error quotes the first of up to 340 lines.
fn id_mappings_that_the_kernel_refuses(bed: &Bed) {
    let overlapping = |id: u32| json!({ "containerID": id, "hostID": 100_000, "size": 2 });
    let list: Vec<Value> = (0..300).map(overlapping).collect();
    let c = mapped(bed).set("/linux/uidMappings", json!(list)).make();
    let outcome = c.run().fails("/uid_map (0 100000 2, 1 100000 2, 2 100000 2, and 297 more)");
    assert!(outcome.stderr.len() < 300, "{outcome}");
}

/// The parameter, which is written last, undid the property.
fn domainname_and_its_sysctl(bed: &Bed) {
    let bundle = |domainname: &str, name: &str| {
        bed.bundle()
            .set("/domainname", json!(domainname))
            .set("/linux/sysctl", json!({ name: "example.org" }))
            .sh("cat /proc/sys/kernel/domainname")
    };
    for name in ["kernel.domainname", "kernel/domainname"] {
        let _ = bundle("example.net", name).make().create().fails(
            "sysctl \"kernel.domainname\" is not allowed as it conflicts with the OCI \"domainname\" field",
        );
    }
    let same = bundle("example.org", "kernel.domainname").make();
    assert_eq!(same.run().ok().stdout, "example.org\n");
}

/// Buildah sets the ambient capabilities of each RUN without the inheritable ones. The warning is one line.
fn ambient_capabilities_that_are_not_inheritable(bed: &Bed) {
    let sets = json!({
        "bounding": ["CAP_KILL", "CAP_CHOWN"],
        "effective": ["CAP_KILL", "CAP_CHOWN"],
        "permitted": ["CAP_KILL", "CAP_CHOWN"],
        "ambient": ["CAP_KILL", "CAP_CHOWN", "CAP_SYS_TIME"],
    });
    let c = bed.bundle().set("/process/capabilities", sets).args(&["/bin/true"]).make();
    let outcome = c.run().ok();
    let warnings: Vec<String> =
        outcome.log().lines().filter(|line| line.contains("ambient")).map(str::to_owned).collect();
    assert_eq!(warnings.len(), 1, "{outcome}");
    let text =
        "can't raise ambient capability CAP_CHOWN, CAP_KILL, CAP_SYS_TIME: operation not permitted";
    assert!(warnings[0].contains(text), "{outcome}");
}

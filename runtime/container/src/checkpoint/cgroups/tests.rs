//! The cgroups that a checkpoint saves, and that a restore leaves to the place of criu.

use cgroup::{Controllers, Hierarchies, Hierarchy};

use super::*;

#[test]
fn only_the_own_cgroup_is_left_to_the_place_of_criu() {
    use core::slice::from_ref;
    use proto::messages::criu::{CgroupDirectory, CgroupHierarchy, CgroupMember, CgroupSet};
    let root = |name: &str| CgroupRoot { controller: Some(name.into()), path: "/c".into() };
    let roots = ["", "pids"].map(root);
    let member = |name: &str, path: &str, namespace_prefix| CgroupMember {
        name: name.into(),
        path: path.into(),
        namespace_prefix,
    };
    let set = |members: &[CgroupMember]| CgroupSet { members: members.to_vec() };
    let saved = |sets: &[CgroupSet], children: &[CgroupDirectory]| {
        let directories = [CgroupDirectory { children: children.to_vec() }].into();
        Cgroups { sets: sets.to_vec(), hierarchies: [CgroupHierarchy { directories }].into() }
    };
    let own = set(&[member("", "/c", 0), member("pids", "/c", 0)]);
    assert!(are_equal(&roots, &saved(from_ref(&own), &[])));
    assert!(!are_equal(&roots, &saved(from_ref(&own), &[CgroupDirectory::default()])));
    assert!(!are_equal(&roots, &saved(&[own.clone(), own], &[])));
    for other in [member("", "/c", 2), member("", "/c/init", 0), member("memory", "/c", 0)] {
        assert!(!are_equal(&roots, &saved(&[set(&[other])], &[])));
    }
    assert!(!are_equal(&roots, &Cgroups::default()));
}

fn location(unified: Option<&str>, legacy: &[&str]) -> Location {
    let hierarchy = |name: &&str| Hierarchy {
        controllers: Controllers::from_list(name),
        mount: format!("/cg/{name}"),
    };
    let hierarchies = Hierarchies {
        root: "/cg".into(),
        unified: unified.map(String::from),
        legacy: legacy.iter().map(hierarchy).collect(),
    };
    Location::resolve(&hierarchies, Some("/pod/c"), "c").unwrap()
}

#[test]
fn hierarchies_with_an_own_cgroup() {
    let text =
        "5:name=systemd:/init.scope\n4:cpu,cpuacct:/pod/c\n3:memory:/pod/c\n2:pids:/\n0::/pod/c\n";
    let hybrid = location(Some("/cg/unified"), &["cpu,cpuacct", "memory", "pids"]);
    assert_eq!(own_hierarchies(Some(&hybrid), text), ["cpu,cpuacct", "memory", ""]);
    assert_eq!(own_hierarchies(Some(&location(Some("/cg"), &[])), text), [""]);
    assert_eq!(own_hierarchies(Some(&location(None, &["memory"])), text), ["memory"]);
    assert_eq!(own_hierarchies(Some(&location(Some("/cg"), &[])), "0::/\n"), ["none"]);
    assert_eq!(own_hierarchies(None, text), ["none"]);
    let skipped = "3:memory:/user.slice\n2:pids:/pod/c\n0::/user.slice\n";
    assert_eq!(own_hierarchies(Some(&hybrid), skipped), ["pids"]);
    let moved = "3:memory:/docker/a/pod/c\n2:pids:/pod/cc\n0::/pod/c/init\n";
    assert_eq!(own_hierarchies(Some(&hybrid), moved), ["memory", ""]);
}

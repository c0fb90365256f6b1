//! Lines of mountinfo.

use super::*;

#[test]
fn lines() {
    let line = Line::parse(
        "303 243 254:0 /a\\040b /c ro,nosuid,relatime shared:22 master:2 - ext4 /dev/vda rw",
    );
    let sharing = Sharing { group: 22, master: 2 };
    assert_eq!(
        line,
        Some(Line {
            id: 303,
            device: "254:0".into(),
            root: "/a b".into(),
            point: "/c".into(),
            attr: attr::RDONLY | attr::NOSUID,
            is_mapped: false,
            sharing,
        })
    );
    let line = Line::parse("1 2 0:3 / /d rw,nodiratime,idmapped - tmpfs tmpfs rw").unwrap();
    assert_eq!(line.attr, MOUNT_ATTR_NODIRATIME | MOUNT_ATTR_STRICTATIME);
    assert!(line.is_mapped && line.sharing.is_private());
    assert_eq!(Line::parse("no line"), None);
}

#[test]
fn escapes() {
    assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
    assert_eq!(unescape("/a\\04"), "/a\\04");
}

#[test]
fn changes_of_a_copy() {
    let (shared, slave, private) = (propagation::SHARED, propagation::SLAVE, propagation::PRIVATE);
    let after = |group, master, kinds: &[u64]| {
        let start = Sharing { group, master };
        let Sharing { group, master } = kinds.iter().fold(start, |one, kind| one.after(*kind));
        (group, master)
    };
    assert_eq!(after(7, 3, &[slave]), (0, 7));
    assert_eq!(after(0, 3, &[slave]), (0, 3));
    assert_eq!(after(0, 0, &[slave]), (0, 0));
    assert_eq!(after(7, 0, &[slave, shared]), (NEW, 7));
    assert_eq!(after(7, 0, &[slave, shared, slave]), (0, 7));
    assert_eq!(after(7, 3, &[shared]), (7, 3));
    assert_eq!(after(7, 3, &[private]), (0, 0));
    assert_eq!(after(7, 3, &[propagation::UNBINDABLE]), (0, 0));
    assert!(Sharing { group: NEW, master: 7 }.is_of(Sharing { group: 9, master: 7 }));
    assert!(!Sharing { group: NEW, master: 7 }.is_of(Sharing { group: 0, master: 7 }));
    assert!(!Sharing { group: 8, master: 7 }.is_of(Sharing { group: 9, master: 7 }));
}

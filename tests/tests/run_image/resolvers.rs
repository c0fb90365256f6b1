//! /etc/resolv.conf of containers of images, on hosts whose name server is on the loopback device.

use super::{image_of, path, programs};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image;
use dayfly_tests::runner::Case;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[case!(servers_behind_systemd_resolved).unlike_runc().needs(programs)];

/// The host's /etc and /run are replaced in a mount namespace: /etc/resolv.conf is a link to systemd-resolved's file.
fn servers_behind_systemd_resolved(bed: &Bed) {
    image_of(bed, vec![]);
    let etc = bed.dir.join("etc");
    fs::create_dir(&etc).expect("mkdir");
    let stub = "nameserver 127.0.0.53\noptions edns0\n";
    let link = "../run/systemd/resolve/stub-resolv.conf";
    std::os::unix::fs::symlink(link, etc.join("resolv.conf")).expect("symlink");
    let seen = |network: &str, servers: Option<&str>| {
        let script = format!(
            "set -e; mount --bind {etc} /etc; exec 9<{beds}; mount -t tmpfs none /run\n\
             mkdir -p /run/systemd/resolve {beds}; mount -c --bind /proc/self/fd/9 {beds}; exec 9<&-\n\
             printf '{stub}' >/run/systemd/resolve/stub-resolv.conf\n\
             {servers}\n\
             exec {dayfly} --root {root} run --name {id} --network {network} --image test cat /etc/resolv.conf",
            etc = etc.display(),
            // The directory of all beds, which may be below /run.
            beds = bed.dir.parent().expect("parent").display(),
            servers = servers.map_or_else(
                || "true".to_owned(),
                |text| format!("printf '{text}' >/run/systemd/resolve/resolv.conf")
            ),
            dayfly = bed.runtime().display(),
            root = bed.root().display(),
            id = bed.id(),
        );
        let args = ["-m", "--propagation", "private", "sh", "-c", &script];
        let call = bed.program("unshare", &args).env("DAYFLY_STORE", path(&image::store(bed)));
        call.run().ok().stdout
    };
    let joined = "ns:/proc/self/ns/net";
    let servers = Some("nameserver 192.0.2.1\nnameserver 127.0.0.1\nsearch test\n");
    assert_eq!(seen(joined, servers), "nameserver 192.0.2.1\nsearch test\n");
    assert_eq!(seen("host", servers), stub);
    assert_eq!(seen(joined, None), "options edns0\n");
}

//! Pinning on other hosts.

#[path = "../../../lib/topology/tests/common/mod.rs"]
mod common;

use common::Sysroot;
use dayfly_host::cgroups::pinning::lines;
use topology::pin::place;

/// Tests that four groups of eight CPUs get the eight cgset lines that the article on application consolidation shows.
#[test]
fn the_eight_lines_of_seed_002() {
    let host = Sysroot::of("nehalem-ex").topology();
    let groups = ["test1", "test2", "test3", "test4"].map(|name| (name.to_owned(), 8));
    let all = place(&groups, &host, &host.online()).unwrap();
    assert_eq!(
        lines(&all),
        "cgset -r cpuset.cpus='0,4,8,12,16,20,24,28' test1\n\
         cgset -r cpuset.mems='0' test1\n\
         cgset -r cpuset.cpus='1,5,9,13,17,21,25,29' test2\n\
         cgset -r cpuset.mems='1' test2\n\
         cgset -r cpuset.cpus='2,6,10,14,18,22,26,30' test3\n\
         cgset -r cpuset.mems='2' test3\n\
         cgset -r cpuset.cpus='3,7,11,15,19,23,27,31' test4\n\
         cgset -r cpuset.mems='3' test4\n"
    );
}

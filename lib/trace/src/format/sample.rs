//! Sample time lines for testing the formats.

use proptest::prelude::*;

use crate::{Awaited, Phase, Row, Span, Timeline};

/// The start time of the samples: some hours after boot.
const BOOT: u64 = 14_073_911_224_518;

/// Builds a row of consecutive spans with short gaps between them.
struct Actor {
    row: Row,
    now: u64,
    jitter: u64,
}

impl Actor {
    fn new(name: &str, pid: i32, parent: Option<usize>, at: u64) -> Self {
        let row = Row {
            name: name.into(),
            pid,
            parent,
            start: BOOT + at,
            end: BOOT + at,
            ..Row::default()
        };
        Self { row, now: BOOT + at, jitter: 7 }
    }

    /// Adds work of this many nanoseconds.
    fn work(&mut self, phase: Phase, name: &str, object: &str, took: u64) -> &mut Span {
        let start = self.now;
        self.now = start + took;
        self.row.end = self.now;
        let span = Span {
            phase,
            name: name.into(),
            object: object.into(),
            start,
            end: self.now,
            ..Span::default()
        };
        self.jitter = self.jitter * 5 % 97;
        self.now += 300 + self.jitter * 11;
        self.row.spans.push(span);
        self.row.spans.last_mut().unwrap()
    }

    /// Adds a wait for a row. The wait ends at `until`, counted from the start of the sample.
    fn wait(&mut self, name: &str, row: usize, until: u64) {
        let took = (BOOT + until).saturating_sub(self.now);
        self.work(Phase::Sync, name, "", took).wait = Some(Awaited::Row(row));
    }

    fn at(&self) -> u64 {
        self.now - BOOT
    }
}

/// Returns the time line of a container start that takes 3 ms. The time line has five rows: the command, the network
/// maker, the container's init, the container's program, and a hook.
pub fn start() -> Timeline {
    run(410_000)
}

/// Returns a start whose program runs for two seconds.
pub fn long() -> Timeline {
    run(2_000_000_000)
}

fn run(program: u64) -> Timeline {
    use Phase::*;
    let mut parent = Actor::new("parent", 48_211, None, 0);
    parent.work(Bootstrap, "exec", "dayfly run", 231_400);
    parent.work(Configuration, "parse command line", "", 8_100);
    let read = parent.work(Configuration, "read configuration", "/srv/bundle/config.json", 142_000);
    let within = Span { name: "parse JSON".into(), object: String::new(), ..read.clone() };
    let within = Span { start: read.start + 31_000, end: read.end - 9_000, ..within };
    parent.row.spans.push(within);
    parent.work(Configuration, "check configuration", "", 21_700);
    parent.work(Configuration, "plan", "61 steps", 36_300);
    parent.work(Security, "find seccomp program", "cache 5ff0c1", 18_200);
    parent.work(Configuration, "make state directory", "/run/dayfly/c1", 33_900);
    for path in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"] {
        parent.work(Mounts, "clone device", path, 5_400 + path.len() as u64 * 90);
    }
    parent.work(Mounts, "clone tree", "/srv/bundle/rootfs", 29_300);
    let network = parent.at() + 40_000;
    parent.work(Platform, "make network", "", 52_000);
    parent.work(Cgroups, "make cgroup", "/sys/fs/cgroup/dayfly/c1", 61_800);
    for (file, took) in [("pids.max", 9_100), ("memory.max", 11_300), ("cpu.weight", 8_700)] {
        parent.work(Cgroups, "write limit", file, took);
    }
    parent.work(Cgroups, "load device program", "13 rules", 44_000);
    let birth = parent.at() + 118_000;
    parent.work(Bootstrap, "clone", "into the cgroup, pid mount uts ipc", 163_500);
    parent.work(Security, "limit resources", "1", 4_200);
    parent.work(Security, "adjust oom score", "0", 7_900);
    let admitted = parent.at() + 2_500;
    parent.work(Sync, "admit", "", 3_900);
    parent.work(Configuration, "record", "state.json", 47_300);

    let mut maker = Actor::new("network", 48_212, Some(0), network);
    maker.work(Platform, "unshare", "network", 493_000);
    maker.work(Platform, "loopback up", "", 38_000);

    let mut init = Actor::new("init", 48_213, Some(0), birth);
    init.work(Security, "undumpable", "", 1_800);
    init.work(Mounts, "detach propagation", "", 14_200);
    init.wait("await admission", 0, admitted + 9_000);
    init.wait("await network", 1, maker.at() + 11_000);
    init.work(Platform, "join network", "", 12_600);
    init.work(Platform, "set hostname", "c1", 1_900);
    init.work(Mounts, "attach root", "/srv/bundle/rootfs", 21_000);
    for (what, took) in [
        ("proc on /proc", 61_400),
        ("tmpfs on /dev", 48_900),
        ("devpts on /dev/pts", 39_700),
        ("tmpfs on /dev/shm", 30_300),
        ("mqueue on /dev/mqueue", 22_400),
        ("sysfs on /sys", 33_800),
        ("cgroup2 on /sys/fs/cgroup", 24_900),
    ] {
        init.work(Mounts, "mount", what, took);
    }
    for path in ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"] {
        init.work(Mounts, "attach tree", path, 7_100 + path.len() as u64 * 60);
    }
    init.work(Mounts, "make links", "fd stdin stdout stderr core ptmx", 26_800);
    init.work(Mounts, "pivot root", "", 58_100);
    for path in ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"] {
        init.work(Security, "make read-only", path, 6_800 + path.len() as u64 * 70);
    }
    for path in ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"] {
        init.work(Security, "mask", path, 8_200 + path.len() as u64 * 40);
    }
    init.work(Mounts, "set mount attributes", "/", 7_700);
    init.work(Security, "limit capabilities", "", 12_100);
    init.work(Security, "change user", "0:0", 3_300);
    init.work(Security, "set capabilities", "", 2_100);
    init.work(Security, "no new privileges", "", 600);
    init.work(Bootstrap, "find program", "sh", 9_400);
    init.work(Sync, "announce ready", "", 3_100);
    let ready = init.at();

    parent.wait("await ready", 2, ready + 14_000);
    let commit = parent.at() + 3_000;
    parent.work(Sync, "commit", "", 4_800);
    init.wait("await commit", 0, commit + 16_000);
    init.work(Security, "load seccomp", "412 instructions", 68_000);
    init.work(Bootstrap, "exec", "sh -c true", 287_000);
    parent.wait("await exec", 2, init.at() + 9_000);
    parent.work(Configuration, "record", "state.json", 28_900);

    let mut sh = Actor::new("program", 48_213, Some(2), init.row.end - BOOT);
    sh.work(Program, "sh", "-c true", program);
    parent.wait("container runs", 3, sh.at() + 31_000);
    parent.work(Shutdown, "kill", "what is left", 12_300);
    parent.work(Shutdown, "remove cgroup", "/sys/fs/cgroup/dayfly/c1", 141_000);
    parent.work(Shutdown, "remove state directory", "/run/dayfly/c1", 46_000);
    let mut hook = Actor::new("hook", 48_219, Some(0), parent.at() + 20_000);
    hook.work(Bootstrap, "hook", "/usr/bin/unregister", 380_000);
    parent.wait("await hook", 4, hook.at() + 20_000);
    parent.row.end = parent.now + 5_000;
    Timeline {
        command: "dayfly run".into(),
        id: "c1".into(),
        rows: [parent, maker, init, sh, hook].map(|actor| actor.row).into(),
        notes: vec!["the end of exec is when its descriptors closed".into()],
    }
}

/// Returns a start that failed in a mount. Some steps of its first row were not recorded.
pub fn failed() -> Timeline {
    let mut timeline = start();
    timeline.rows.truncate(3);
    let init = &mut timeline.rows[2];
    let at = init.spans.iter().position(|span| span.object == "sysfs on /sys").unwrap();
    init.spans.truncate(at + 1);
    init.spans[at].errno = 1;
    init.end = init.spans[at].end;
    let end = init.end + 60_000;
    let parent = &mut timeline.rows[0];
    parent.spans.retain(|span| span.start < end);
    for span in &mut parent.spans {
        span.end = span.end.min(end - 40_000);
    }
    parent.lost = 12;
    parent.end = end;
    timeline.notes.push("init <runc & \"friends\">\u{1b}[31m".into());
    timeline
}

/// Returns a process with concurrent threads.
pub fn threads() -> Timeline {
    let mut timeline = start();
    timeline.rows.truncate(1);
    let row = &mut timeline.rows[0];
    row.name = "a runtime with a long name".into();
    let spans = row.spans.clone();
    row.spans.extend(spans.into_iter().enumerate().filter(|(index, _)| index % 3 != 0).map(
        |(index, span)| {
            let by = 9_000 + index as u64 * 700;
            Span { start: span.start + by, end: span.end + by, ..span }
        },
    ));
    row.spans.sort_by_key(|span| span.start);
    timeline
}

/// Returns a minimal time line with two rows and five spans.
pub fn small() -> Timeline {
    let span = |phase, name: &str, (start, end): (u64, u64)| Span {
        phase,
        name: name.into(),
        start: start * 1000,
        end: end * 1000,
        ..Span::default()
    };
    let mut parent = vec![
        span(Phase::Bootstrap, "exec", (5, 25)),
        span(Phase::Configuration, "read", (25, 85)),
        span(Phase::Configuration, "parse", (35, 45)),
        span(Phase::Sync, "await init", (90, 100)),
    ];
    parent[2].object = "config.json".into();
    parent[2].errno = 2;
    parent[3].wait = Some(Awaited::Row(1));
    let mut init = vec![span(Phase::Mounts, "mount", (55, 95))];
    init[0].object = "/proc".into();
    let row = |name: &str, pid, parent, (start, end): (u64, u64), spans, lost| Row {
        name: name.into(),
        pid,
        parent,
        start: start * 1000,
        end: end * 1000,
        spans,
        lost,
    };
    Timeline {
        command: "dayfly run".into(),
        id: "c".into(),
        rows: vec![
            row("parent", 7, None, (5, 105), parent, 0),
            row("init", 8, Some(0), (55, 95), init, 3),
        ],
        notes: vec!["times are invented".into()],
    }
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..1000, 1 => any::<u64>()]
}

prop_compose! {
    fn span()(
        phase in 0usize..9,
        name in "\\PC{0,6}|[\\x00-\\x7f]{0,4}|mount|admit",
        object in "\\PC{0,12}|[\\x00-\\x7f]{0,6}|/dev",
        start in time(),
        end in time(),
        wait in proptest::option::of(
            prop_oneof![3 => (0usize..6).prop_map(Awaited::Row), 1 => Just(Awaited::Other)]
        ),
        errno in prop_oneof![0u16..200, any::<u16>()],
    ) -> Span {
        Span { phase: Phase::ALL[phase], name, object, start, end, wait, errno }
    }
}

prop_compose! {
    fn row()(
        name in "parent|init|\\PC{0,20}|[\\x00-\\x7f]{0,4}",
        pid in prop_oneof![1i32..4, any::<i32>()],
        parent in proptest::option::of(prop_oneof![0usize..6, any::<usize>()]),
        start in time(),
        end in time(),
        spans in proptest::collection::vec(span(), 0..14),
        lost in prop_oneof![Just(0), any::<u64>()],
    ) -> Row {
        Row { name, pid, parent, start, end, spans, lost }
    }
}

prop_compose! {
    /// Generates arbitrary time lines, including inconsistent ones.
    pub fn anything()(
        command in any::<String>(),
        id in any::<String>(),
        rows in proptest::collection::vec(row(), 0..6),
        notes in proptest::collection::vec("\\PC{0,30}|[\\x00-\\x7f]{0,6}", 0..3),
    ) -> Timeline {
        Timeline { command, id, rows, notes }
    }
}

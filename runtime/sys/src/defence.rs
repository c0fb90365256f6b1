//! Defences that tests switch off, to show that each attack of tests/tests/hostile.rs would succeed without the
//! one it is about: in builds with `--cfg dayfly_undefended` (tests/README.md). In all others [`is_off`] is a constant, and
//! nothing of what depends on it is left.

/// What this build has that no released one may have, for tests: said by `--version` and `features`, and a
/// warning of each run. Nothing in a build without flags of the compiler for it.
pub const TEST_BUILD: Option<&str> = match (cfg!(dayfly_faults), cfg!(dayfly_undefended)) {
    (false, false) => None,
    (true, false) => Some("fault injection"),
    (false, true) => Some("disabled defences"),
    (true, true) => Some("fault injection, disabled defences"),
};

/// The variables that test builds read: kept in the program whatever the compiler makes of their uses, so that it
/// can be told from one without them (tests/tests/builds.rs).
#[cfg(any(dayfly_faults, dayfly_undefended))]
#[used]
pub static VARIABLES: [&str; 3] = ["DAYFLY_FAULT", "DAYFLY_UNDEFENDED", "DAYFLY_PAUSE"];

/// A defence that can be left out, with the attacks that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defence {
    /// `seal`: commands that enter a container run from a read-only copy (CVE-2019-5736).
    Seal,
    /// `resolve-in-root`: paths are resolved inside the root, and what is missing is made below the descriptor
    /// of its parent, following nothing. Without it, as openat(2) does (CVE-2019-18837, CVE-2021-30465,
    /// CVE-2024-45310, CVE-2026-41579).
    ResolveInRoot,
    /// `ordinary-proc`: no link leads to the place of a proc or sysfs (CVE-2019-19921, CVE-2023-27561,
    /// CVE-2025-54867).
    OrdinaryProc,
    /// `proc-covers`: nothing but a few files below /proc may be mounted over (CVE-2019-16884).
    ProcCovers,
    /// `verify-proc`: sysctls are written through the host's procfs. Without it, by their names in the
    /// container (CVE-2025-52881).
    VerifyProc,
    /// `verify-device`: what covers masked files is the host's /dev/null. Without it, what the container has
    /// of that name (CVE-2025-31133, CVE-2026-88265).
    VerifyDevice,
    /// `pty-peer`: the terminal comes from its master. Without it, /dev/console is what the container has at
    /// /dev/pts/N (CVE-2025-52565).
    PtyPeer,
    /// `after-pivot`: terminal and masks come when the host's tree cannot be seen any more (CVE-2026-88264,
    /// CVE-2026-88265).
    AfterPivot,
    /// `close-range`: no descriptor but those that were asked for reaches the program (CVE-2024-21626).
    CloseRange,
    /// `cwd-check`: the working directory is inside the root (CVE-2024-21626).
    CwdCheck,
    /// `inheritable`: capabilities added by `exec` are not inheritable (CVE-2022-29162, CVE-2022-27650).
    Inheritable,
    /// `cgroup-read-only`: the host's cgroups, bound, are as read-only as a fresh mount would be
    /// (CVE-2023-25809).
    CgroupReadOnly,
    /// `strict-integers`: what is no number is refused. Without it, it is 0 (CVE-2026-30892).
    StrictIntegers,
    /// `lengths`: the name of a network device fits one, and a netlink attribute its length. Without it, the
    /// length wraps (CVE-2021-43784).
    Lengths,
    /// `id-check`: a container's id is the name of a directory.
    IdCheck,
    /// `bare-birth`: who is born into a PID namespace that others are in has nothing of the host's.
    BareBirth,
    /// `cgroup-path`: no `..` in the path of a cgroup.
    CgroupPath,
    /// `lent-read-only`: a device node of the host's is lent to a container by a read-only mount.
    LentReadOnly,
    /// `own-null`: standard streams that are the host's /dev/null become the container's own.
    OwnNull,
    /// `old-tree`: with `--no-pivot` no procfs and sysfs of the host's is left below the root.
    OldTree,
    /// `own-nodes`: devices of a container in a user namespace are nodes of its own. Without it, the host's are lent.
    OwnNodes,
    /// `template-owner`: the template belongs to a user namespace of its own, which locks what containers start with.
    TemplateOwner,
}

#[cfg(not(dayfly_undefended))]
mod switches {
    /// Never, in this build.
    #[inline(always)]
    pub const fn is_off(_: super::Defence) -> bool {
        false
    }

    /// None, in this build.
    #[inline(always)]
    pub fn pause_at(_: impl Iterator<Item = &'static str>) -> Option<usize> {
        None
    }

    /// Goes on, in this build.
    #[inline(always)]
    pub const fn pause() {}
}

#[cfg(dayfly_undefended)]
mod switches {
    use super::Defence;
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    const NAMES: [(&str, Defence); 22] = [
        ("seal", Defence::Seal),
        ("resolve-in-root", Defence::ResolveInRoot),
        ("ordinary-proc", Defence::OrdinaryProc),
        ("proc-covers", Defence::ProcCovers),
        ("verify-proc", Defence::VerifyProc),
        ("verify-device", Defence::VerifyDevice),
        ("pty-peer", Defence::PtyPeer),
        ("after-pivot", Defence::AfterPivot),
        ("close-range", Defence::CloseRange),
        ("cwd-check", Defence::CwdCheck),
        ("inheritable", Defence::Inheritable),
        ("cgroup-read-only", Defence::CgroupReadOnly),
        ("strict-integers", Defence::StrictIntegers),
        ("lengths", Defence::Lengths),
        ("id-check", Defence::IdCheck),
        ("bare-birth", Defence::BareBirth),
        ("cgroup-path", Defence::CgroupPath),
        ("lent-read-only", Defence::LentReadOnly),
        ("own-null", Defence::OwnNull),
        ("old-tree", Defence::OldTree),
        ("own-nodes", Defence::OwnNodes),
        ("template-owner", Defence::TemplateOwner),
    ];

    /// A bit for each that is off.
    static OFF: AtomicU32 = AtomicU32::new(0);
    /// Of the name of the step to stop before; 0 for none.
    static PAUSE: AtomicU64 = AtomicU64::new(0);

    /// Switches off what `names` says, with commas between them. False if one is unknown.
    pub fn switch_off(names: &str) -> bool {
        names.split(',').filter(|name| !name.is_empty()).all(|name| {
            let found = NAMES.iter().find(|(known, _)| *known == name);
            found.map(|(_, defence)| OFF.fetch_or(bit(*defence), Ordering::Relaxed)).is_some()
        })
    }

    /// Has init stop once, before the first step of this name.
    pub fn pause_before(step: &str) {
        PAUSE.store(hash(step), Ordering::Relaxed);
    }

    /// Whether the command does without it.
    pub fn is_off(defence: Defence) -> bool {
        OFF.load(Ordering::Relaxed) & bit(defence) != 0
    }

    /// Which of these steps is the first to stop before. For the parent: init may not allocate what names
    /// them.
    pub fn pause_at(mut steps: impl Iterator<Item = &'static str>) -> Option<usize> {
        let wanted = PAUSE.load(Ordering::Relaxed);
        steps.position(|step| wanted != 0 && hash(step) == wanted)
    }

    /// Says on standard output that it stops, and reads from standard input.
    pub fn pause() {
        let _ = rustix::io::write(crate::stdio::stdout(), b"paused\n");
        let _ = rustix::io::read(crate::stdio::stdin(), &mut [0; 1]);
    }

    fn bit(defence: Defence) -> u32 {
        1 << defence as u32
    }

    /// FNV-1a.
    fn hash(text: &str) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }
}

pub use switches::*;

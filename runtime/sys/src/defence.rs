//! Defences that tests switch off, to show that each attack of tests/tests/hostile.rs succeeds without its defence.
//! Only builds with `--cfg dayfly_undefended` contain the switches (tests/README.md). In all other builds [`is_off`] is
//! a constant, and the compiler removes the code that depends on it.

/// The test-only features of this build, if any: printed by `--version` and `features`, and as a warning at each run.
/// `None` in a build without the `--cfg` flags that enable them.
pub const TEST_BUILD: Option<&str> = match (cfg!(dayfly_faults), cfg!(dayfly_undefended)) {
    (false, false) => None,
    (true, false) => Some("fault injection"),
    (false, true) => Some("disabled defences"),
    (true, true) => Some("fault injection, disabled defences"),
};

/// The environment variables that test builds read. Their names stay in the binary even if the compiler optimises their
/// uses away, so that tests/tests/builds.rs can recognise a test build by them.
#[cfg(any(dayfly_faults, dayfly_undefended))]
#[used]
pub static VARIABLES: [&str; 3] = ["DAYFLY_FAULT", "DAYFLY_UNDEFENDED", "DAYFLY_PAUSE"];

/// A defence that test builds can switch off, with the attacks that it prevents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defence {
    /// `seal`: commands that enter a container run from a read-only copy (CVE-2019-5736).
    Seal,
    /// `resolve-in-root`: paths are resolved inside the container's root, and missing files are created relative to the
    /// descriptor of their parent directory, without following links. Without this defence, paths resolve as with
    /// openat(2) (CVE-2019-18837, CVE-2021-30465, CVE-2024-45310, CVE-2026-41579).
    ResolveInRoot,
    /// `ordinary-proc`: the path of a mount point for proc or sysfs contains no symbolic link (CVE-2019-19921,
    /// CVE-2023-27561, CVE-2025-54867).
    OrdinaryProc,
    /// `proc-covers`: only a few files below /proc may be mounted over (CVE-2019-16884).
    ProcCovers,
    /// `verify-proc`: sysctls are written through the host's procfs. Without this defence, they are written by their
    /// names in the container (CVE-2025-52881).
    VerifyProc,
    /// `verify-device`: masked files are covered by the host's /dev/null. Without this defence, they are covered by any
    /// file that the container has at /dev/null (CVE-2025-31133, CVE-2026-88265).
    VerifyDevice,
    /// `pty-peer`: the terminal is opened through its master's descriptor. Without this defence, /dev/console is any
    /// file that the container has at /dev/pts/N (CVE-2025-52565).
    PtyPeer,
    /// `after-pivot`: the terminal and the covers of masked files are mounted only after the host's tree has been
    /// detached (CVE-2026-88264, CVE-2026-88265).
    AfterPivot,
    /// `close-range`: only requested descriptors reach the program (CVE-2024-21626).
    CloseRange,
    /// `cwd-check`: the working directory is inside the root (CVE-2024-21626).
    CwdCheck,
    /// `inheritable`: capabilities added by `exec` are not inheritable (CVE-2022-29162, CVE-2022-27650).
    Inheritable,
    /// `cgroup-read-only`: a bind mount of the host's cgroup hierarchy is read-only if the configuration requests this.
    /// If the caller lacks root's rights on the host, it is always read-only (CVE-2023-25809).
    CgroupReadOnly,
    /// `strict-integers`: text that is not a number is refused. Without this defence, it is read as 0 (CVE-2026-30892).
    StrictIntegers,
    /// `lengths`: the name of a network device and a netlink attribute are checked against their maximum lengths.
    /// Without this defence, the length wraps (CVE-2021-43784).
    Lengths,
    /// `id-check`: a container's id must be a valid directory name.
    IdCheck,
    /// `bare-birth`: a process that is created in an existing PID namespace, where other processes could access it,
    /// holds no resources of the host.
    BareBirth,
    /// `cgroup-path`: a cgroup path must not contain `..`.
    CgroupPath,
    /// `lent-read-only`: the bind mount of one of the host's device nodes is read-only.
    LentReadOnly,
    /// `own-null`: standard streams that are the host's /dev/null are replaced by the container's own /dev/null.
    OwnNull,
    /// `old-tree`: with `--no-pivot`, no procfs or sysfs of the host stays mounted below the root.
    OldTree,
    /// `own-nodes`: a container in a user namespace gets device nodes of its own. Without this defence, it gets bind
    /// mounts of the host's nodes.
    OwnNodes,
    /// `blank-owner`: the blank mount namespace is owned by a separate user namespace, so that the kernel locks
    /// the mounts that containers start with.
    BlankOwner,
}

#[cfg(not(dayfly_undefended))]
mod switches {
    /// Returns false in this build, for every defence.
    #[inline(always)]
    pub const fn is_off(_: super::Defence) -> bool {
        false
    }

    /// Returns `None` in this build.
    #[inline(always)]
    pub fn pause_at(_: impl Iterator<Item = &'static str>) -> Option<usize> {
        None
    }

    /// Does nothing in this build.
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
        ("blank-owner", Defence::BlankOwner),
    ];

    /// One bit for each defence, set if the defence is switched off.
    static OFF: AtomicU32 = AtomicU32::new(0);
    /// The hash of the name of the step before which init stops; 0 if init does not stop.
    static PAUSE: AtomicU64 = AtomicU64::new(0);

    /// Switches off the defences in `names`, separated by commas. Returns false if a name is unknown.
    pub fn switch_off(names: &str) -> bool {
        names.split(',').filter(|name| !name.is_empty()).all(|name| {
            let found = NAMES.iter().find(|(known, _)| *known == name);
            found.map(|(_, defence)| OFF.fetch_or(bit(*defence), Ordering::Relaxed)).is_some()
        })
    }

    /// Makes init stop once, before the first step with this name.
    pub fn pause_before(step: &str) {
        PAUSE.store(hash(step), Ordering::Relaxed);
    }

    /// Returns whether a defence is switched off.
    pub fn is_off(defence: Defence) -> bool {
        OFF.load(Ordering::Relaxed) & bit(defence) != 0
    }

    /// Returns the index in `steps` of the first step with the name set by `pause_before`, if any. Only the parent may
    /// call this function, because producing the names allocates, which init must not do.
    pub fn pause_at(mut steps: impl Iterator<Item = &'static str>) -> Option<usize> {
        let wanted = PAUSE.load(Ordering::Relaxed);
        steps.position(|step| wanted != 0 && hash(step) == wanted)
    }

    /// Writes `paused` to standard output, then waits for input on standard input.
    pub fn pause() {
        let _ = rustix::io::write(crate::stdio::stdout(), b"paused\n");
        let _ = rustix::io::read(crate::stdio::stdin(), &mut [0; 1]);
    }

    fn bit(defence: Defence) -> u32 {
        1 << defence as u32
    }

    /// Returns the 64-bit FNV-1a hash of a text.
    fn hash(text: &str) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }
}

pub use switches::*;

//! The `options` of a mount, parsed once into arguments of the mount system calls.
//!
//! The known options are those of runc (the options of mount(8), propagation types, recursive attributes and
//! extensions), and options of crun for symbolic links (`copy-symlink`, `src-nofollow`, `dest-nofollow`) and for ranges
//! of ids (`idmap=`). Any other option is data for the filesystem. Later options override earlier ones. Sources:
//! runtime-spec 1.3, config.md "Linux mount options"; mount(2), mount_setattr(2), fsmount(2).
use alloc::vec::Vec;

pub use crate::attr_change::{AttrChange, MOUNT_ATTR__ATIME};
pub use crate::id_ranges::IdMap;
use crate::text::Str;

/// Read-only.
pub const MOUNT_ATTR_RDONLY: u64 = 0x0000_0001;
/// Set-user-id and set-group-id bits and file capabilities have no effect.
pub const MOUNT_ATTR_NOSUID: u64 = 0x0000_0002;
/// Device nodes cannot be opened.
pub const MOUNT_ATTR_NODEV: u64 = 0x0000_0004;
/// Programs cannot be executed.
pub const MOUNT_ATTR_NOEXEC: u64 = 0x0000_0008;
/// Access time is updated as for the option `relatime` of mount(8). This is the value 0 of the field.
pub const MOUNT_ATTR_RELATIME: u64 = 0x0000_0000;
/// Access time is not updated.
pub const MOUNT_ATTR_NOATIME: u64 = 0x0000_0010;
/// Access time is updated on every access.
pub const MOUNT_ATTR_STRICTATIME: u64 = 0x0000_0020;
/// Access time of directories is not updated.
pub const MOUNT_ATTR_NODIRATIME: u64 = 0x0000_0080;
/// Symbolic links are not followed (Linux 5.14).
pub const MOUNT_ATTR_NOSYMFOLLOW: u64 = 0x0020_0000;

/// The superblock is read-only. The `SB_` flags have the numbers of the `MS_` flags of mount(2).
pub const SB_RDONLY: u32 = 1;
/// Writes are synchronous.
pub const SB_SYNCHRONOUS: u32 = 1 << 4;
/// Mandatory locks; without effect since Linux 5.15.
pub const SB_MANDLOCK: u32 = 1 << 6;
/// Directory changes are synchronous.
pub const SB_DIRSYNC: u32 = 1 << 7;
/// Mount errors are not logged.
pub const SB_SILENT: u32 = 1 << 15;
/// The inode version is maintained.
pub const SB_I_VERSION: u32 = 1 << 23;
/// Timestamps are kept in memory as long as possible.
pub const SB_LAZYTIME: u32 = 1 << 25;

/// Applies the propagation change to the mount and all mounts below it.
pub const MS_REC: u64 = 1 << 14;
/// The mount cannot be bind-mounted.
pub const MS_UNBINDABLE: u64 = 1 << 17;
/// Mount events are neither received nor sent.
pub const MS_PRIVATE: u64 = 1 << 18;
/// Mount events are received only.
pub const MS_SLAVE: u64 = 1 << 19;
/// Mount events are received and sent.
pub const MS_SHARED: u64 = 1 << 20;

/// A change of mount propagation, mount_namespaces(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Propagation {
    /// One of `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE` and `MS_UNBINDABLE`.
    pub kind: u64,
    /// Whether the change applies to all mounts below the mount as well.
    pub recursive: bool,
}

impl Propagation {
    /// Parses a propagation type such as `rslave`.
    pub fn parse(word: &str) -> Option<Self> {
        match lookup(word) {
            Some(Effect::Propagation(propagation)) => Some(propagation),
            _ => None,
        }
    }

    /// Returns the flags for mount(2).
    pub const fn flags(self) -> u64 {
        if self.recursive { self.kind | MS_REC } else { self.kind }
    }
}

/// A bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// Whether mounts below the source are included (`rbind`).
    pub recursive: bool,
}

/// The options of one mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountOptions<'a> {
    /// Attributes of this mount only.
    pub attr: AttrChange,
    /// Attributes of this mount and all mounts below it (`rro`, `rnosuid`, …).
    pub recursive_attr: AttrChange,
    /// `SB_*` flags that the options set. `ro` sets the flag here and in `attr`, as mount(2) does.
    pub superblock_set: u32,
    /// `SB_*` flags that the options clear.
    pub superblock_clear: u32,
    /// Propagation changes, in order.
    pub propagation: Vec<Propagation>,
    /// If set, a bind mount is made instead of a new filesystem.
    pub bind: Option<Bind>,
    /// Whether to change an existing mount.
    pub remount: bool,
    /// Whether to copy the contents of the mount point into the new tmpfs that covers them.
    pub tmpcopyup: bool,
    /// The id mapping of the mount, if its ids are mapped.
    pub id_map: Option<IdMap<'a>>,
    /// If the source is a symbolic link, whether the link is copied to the destination instead of being bind-mounted
    /// (crun).
    pub copy_symlink: bool,
    /// If the source is a symbolic link, whether the link itself is bind-mounted (crun).
    pub source_nofollow: bool,
    /// If the destination is a symbolic link, whether the source is mounted on the link itself (crun).
    pub destination_nofollow: bool,
    /// Filesystem options, `key` or `key=value`, in order.
    pub data: Vec<&'a str>,
}

impl<'a> MountOptions<'a> {
    /// Returns whether a mount of this `kind` with these options is a bind mount.
    pub fn is_bind(&self, kind: &str) -> bool {
        self.bind.is_some() || kind == "bind"
    }

    /// Parses a list of options. Unknown options are filesystem data, so this never fails.
    pub fn parse(options: &'a [Str<'_>]) -> Self {
        let mut parsed = Self::default();
        for option in options {
            match lookup(option) {
                Some(effect) => parsed.apply(effect),
                None => match IdMap::parse(option) {
                    Some(id_map) => parsed.id_map = Some(id_map),
                    None => parsed.data.push(option),
                },
            }
        }
        parsed
    }

    /// Returns the value of the last filesystem option `key=value` with this key.
    pub fn value(&self, key: &str) -> Option<&'a str> {
        self.data.iter().rev().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// Returns the superblock flags as options for fsconfig(2) `FSCONFIG_SET_FLAG`. Two flags are left out because they
    /// exist only in mount(2): `silent` and `iversion`. A file system that supports inode versions always maintains
    /// them.
    pub fn superblock_words(&self) -> impl Iterator<Item = &'static str> {
        const WORDS: [(u32, &str); 5] = [
            (SB_RDONLY, "ro"),
            (SB_SYNCHRONOUS, "sync"),
            (SB_MANDLOCK, "mand"),
            (SB_DIRSYNC, "dirsync"),
            (SB_LAZYTIME, "lazytime"),
        ];
        let set = self.superblock_set;
        WORDS.into_iter().filter(move |(flag, _)| set & flag != 0).map(|(_, word)| word)
    }

    /// Returns the options that clear the superblock flags in `superblock_clear`, for a file system that supports these
    /// options.
    pub fn cleared_superblock_words(&self) -> impl Iterator<Item = &'static str> {
        const WORDS: [(u32, &str); 3] =
            [(SB_SYNCHRONOUS, "async"), (SB_MANDLOCK, "nomand"), (SB_LAZYTIME, "nolazytime")];
        let cleared = self.superblock_clear;
        WORDS.into_iter().filter(move |(flag, _)| cleared & flag != 0).map(|(_, word)| word)
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Set(flag) => self.attr.set(flag),
            Effect::Clear(flag) => self.attr.clear(flag),
            Effect::SetAtime(mode) => self.attr.set_atime(mode),
            Effect::ClearAtime(mode) => self.attr.unset_atime(mode),
            Effect::SetTree(flag) => self.recursive_attr.set(flag),
            Effect::ClearTree(flag) => self.recursive_attr.clear(flag),
            Effect::SetTreeAtime(mode) => self.recursive_attr.set_atime(mode),
            Effect::ClearTreeAtime(mode) => self.recursive_attr.clear_atime(mode),
            Effect::SetSuper(flag) => self.set_superblock(flag),
            Effect::ClearSuper(flag) => self.clear_superblock(flag),
            Effect::ReadOnly => {
                self.attr.set(MOUNT_ATTR_RDONLY);
                self.set_superblock(SB_RDONLY);
            }
            Effect::ReadWrite => {
                self.attr.clear(MOUNT_ATTR_RDONLY);
                self.clear_superblock(SB_RDONLY);
            }
            Effect::Propagation(propagation) => self.propagation.push(propagation),
            // `bind` after `rbind` stays recursive, as in runc: callers append `bind` to lists that contain `rbind`.
            Effect::Bind => self.bind = self.bind.or(Some(Bind { recursive: false })),
            Effect::BindTree => self.bind = Some(Bind { recursive: true }),
            Effect::Remount => self.remount = true,
            Effect::TmpCopyUp => self.tmpcopyup = true,
            Effect::IdMap(recursive) => self.id_map = Some(IdMap { recursive, ranges: None }),
            Effect::CopySymlink => self.copy_symlink = true,
            Effect::SourceNofollow => self.source_nofollow = true,
            Effect::DestinationNofollow => self.destination_nofollow = true,
        }
    }

    fn set_superblock(&mut self, flag: u32) {
        self.superblock_set |= flag;
        self.superblock_clear &= !flag;
    }

    fn clear_superblock(&mut self, flag: u32) {
        self.superblock_set &= !flag;
        self.superblock_clear |= flag;
    }
}

/// Iterates over all options without a value, sorted. `dayfly features` reports them.
pub fn known() -> impl Iterator<Item = &'static str> {
    WORDS.iter().map(|(word, _)| *word)
}

/// Iterates over the options that set the `MOUNT_ATTR_*` flags in `set`, in the order of their bits; used in messages.
pub fn attr_words(set: u64) -> impl Iterator<Item = &'static str> {
    let flags = (0..u64::BITS).map(|bit| 1 << bit).filter(move |flag| set & flag != 0);
    flags.filter_map(|flag| {
        let sets = |effect: &Effect| match effect {
            Effect::Set(own) | Effect::SetAtime(own) => *own == flag,
            Effect::ReadOnly => flag == MOUNT_ATTR_RDONLY,
            _ => false,
        };
        WORDS.iter().find(|(_, effect)| sets(effect)).map(|(word, _)| *word)
    })
}

/// The effect of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Nothing,
    Set(u64),
    Clear(u64),
    SetAtime(u64),
    ClearAtime(u64),
    SetTree(u64),
    ClearTree(u64),
    SetTreeAtime(u64),
    ClearTreeAtime(u64),
    SetSuper(u32),
    ClearSuper(u32),
    ReadOnly,
    ReadWrite,
    Propagation(Propagation),
    Bind,
    BindTree,
    Remount,
    TmpCopyUp,
    /// Whether it is `ridmap`.
    IdMap(bool),
    CopySymlink,
    SourceNofollow,
    DestinationNofollow,
}

const fn propagation(kind: u64) -> Effect {
    Effect::Propagation(Propagation { kind, recursive: false })
}

const fn tree_propagation(kind: u64) -> Effect {
    Effect::Propagation(Propagation { kind, recursive: true })
}

/// Returns whether the option is a known one, including those with a value; data for a file system is not known.
pub fn is_known(option: &str) -> bool {
    lookup(option).is_some() || IdMap::parse(option).is_some()
}

fn lookup(word: &str) -> Option<Effect> {
    let index = WORDS.binary_search_by(|(known, _)| (*known).cmp(word)).ok()?;
    WORDS.get(index).map(|(_, effect)| *effect)
}

/// All known options, sorted. `acl` is intentionally missing, since it is data for the filesystem.
const WORDS: &[(&str, Effect)] = &[
    ("async", Effect::ClearSuper(SB_SYNCHRONOUS)),
    ("atime", Effect::ClearAtime(MOUNT_ATTR_NOATIME)),
    ("bind", Effect::Bind),
    ("copy-symlink", Effect::CopySymlink),
    ("defaults", Effect::Nothing),
    ("dest-nofollow", Effect::DestinationNofollow),
    ("dev", Effect::Clear(MOUNT_ATTR_NODEV)),
    ("diratime", Effect::Clear(MOUNT_ATTR_NODIRATIME)),
    ("dirsync", Effect::SetSuper(SB_DIRSYNC)),
    ("exec", Effect::Clear(MOUNT_ATTR_NOEXEC)),
    ("idmap", Effect::IdMap(false)),
    ("iversion", Effect::SetSuper(SB_I_VERSION)),
    ("lazytime", Effect::SetSuper(SB_LAZYTIME)),
    ("loud", Effect::ClearSuper(SB_SILENT)),
    ("mand", Effect::SetSuper(SB_MANDLOCK)),
    ("noatime", Effect::SetAtime(MOUNT_ATTR_NOATIME)),
    ("nodev", Effect::Set(MOUNT_ATTR_NODEV)),
    ("nodiratime", Effect::Set(MOUNT_ATTR_NODIRATIME)),
    ("noexec", Effect::Set(MOUNT_ATTR_NOEXEC)),
    ("noiversion", Effect::ClearSuper(SB_I_VERSION)),
    ("nolazytime", Effect::ClearSuper(SB_LAZYTIME)),
    ("nomand", Effect::ClearSuper(SB_MANDLOCK)),
    // relatime is the default (the value 0), so there is no bit to clear.
    ("norelatime", Effect::Nothing),
    ("nostrictatime", Effect::ClearAtime(MOUNT_ATTR_STRICTATIME)),
    ("nosuid", Effect::Set(MOUNT_ATTR_NOSUID)),
    ("nosymfollow", Effect::Set(MOUNT_ATTR_NOSYMFOLLOW)),
    ("private", propagation(MS_PRIVATE)),
    ("ratime", Effect::ClearTreeAtime(MOUNT_ATTR_NOATIME)),
    ("rbind", Effect::BindTree),
    ("rdev", Effect::ClearTree(MOUNT_ATTR_NODEV)),
    ("rdiratime", Effect::ClearTree(MOUNT_ATTR_NODIRATIME)),
    ("relatime", Effect::SetAtime(MOUNT_ATTR_RELATIME)),
    ("remount", Effect::Remount),
    ("rexec", Effect::ClearTree(MOUNT_ATTR_NOEXEC)),
    ("ridmap", Effect::IdMap(true)),
    ("rnoatime", Effect::SetTreeAtime(MOUNT_ATTR_NOATIME)),
    ("rnodev", Effect::SetTree(MOUNT_ATTR_NODEV)),
    ("rnodiratime", Effect::SetTree(MOUNT_ATTR_NODIRATIME)),
    ("rnoexec", Effect::SetTree(MOUNT_ATTR_NOEXEC)),
    ("rnorelatime", Effect::ClearTreeAtime(MOUNT_ATTR_RELATIME)),
    ("rnostrictatime", Effect::ClearTreeAtime(MOUNT_ATTR_STRICTATIME)),
    ("rnosuid", Effect::SetTree(MOUNT_ATTR_NOSUID)),
    ("rnosymfollow", Effect::SetTree(MOUNT_ATTR_NOSYMFOLLOW)),
    ("ro", Effect::ReadOnly),
    ("rprivate", tree_propagation(MS_PRIVATE)),
    ("rrelatime", Effect::SetTreeAtime(MOUNT_ATTR_RELATIME)),
    ("rro", Effect::SetTree(MOUNT_ATTR_RDONLY)),
    ("rrw", Effect::ClearTree(MOUNT_ATTR_RDONLY)),
    ("rshared", tree_propagation(MS_SHARED)),
    ("rslave", tree_propagation(MS_SLAVE)),
    ("rstrictatime", Effect::SetTreeAtime(MOUNT_ATTR_STRICTATIME)),
    ("rsuid", Effect::ClearTree(MOUNT_ATTR_NOSUID)),
    ("rsymfollow", Effect::ClearTree(MOUNT_ATTR_NOSYMFOLLOW)),
    ("runbindable", tree_propagation(MS_UNBINDABLE)),
    ("rw", Effect::ReadWrite),
    ("shared", propagation(MS_SHARED)),
    ("silent", Effect::SetSuper(SB_SILENT)),
    ("slave", propagation(MS_SLAVE)),
    ("src-nofollow", Effect::SourceNofollow),
    ("strictatime", Effect::SetAtime(MOUNT_ATTR_STRICTATIME)),
    ("suid", Effect::Clear(MOUNT_ATTR_NOSUID)),
    ("symfollow", Effect::Clear(MOUNT_ATTR_NOSYMFOLLOW)),
    ("sync", Effect::SetSuper(SB_SYNCHRONOUS)),
    ("tmpcopyup", Effect::TmpCopyUp),
    ("unbindable", propagation(MS_UNBINDABLE)),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(options: &'a [Str<'static>]) -> MountOptions<'a> {
        MountOptions::parse(options)
    }

    fn words(line: &'static str) -> Vec<Str<'static>> {
        line.split(',').map(Str::new).collect()
    }

    #[test]
    fn words_are_sorted() {
        assert!(WORDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn dev_of_a_default_configuration() {
        let options = words("nosuid,strictatime,mode=755,size=65536k");
        let parsed = parse(&options);
        assert_eq!(parsed.attr.set, MOUNT_ATTR_NOSUID | MOUNT_ATTR_STRICTATIME);
        assert_eq!(parsed.attr.clear, MOUNT_ATTR__ATIME);
        assert_eq!(parsed.data, ["mode=755", "size=65536k"]);
        assert_eq!(parsed.value("size"), Some("65536k"));
        assert_eq!(parsed.value("siz"), None);
        assert_eq!(parsed.bind, None);
    }

    #[test]
    fn bind_with_propagation() {
        let options = words("rbind,rprivate,nosuid,rw,slave");
        let parsed = parse(&options);
        assert_eq!(parsed.bind, Some(Bind { recursive: true }));
        assert_eq!(parsed.attr, AttrChange { set: MOUNT_ATTR_NOSUID, clear: MOUNT_ATTR_RDONLY });
        let flags: Vec<u64> = parsed.propagation.iter().map(|p| p.flags()).collect();
        assert_eq!(flags, [MS_PRIVATE | MS_REC, MS_SLAVE]);
        assert!(parsed.data.is_empty());
    }

    #[test]
    fn bind_after_rbind_stays_recursive() {
        assert_eq!(parse(&words("rbind,bind")).bind, Some(Bind { recursive: true }));
        assert_eq!(parse(&words("bind")).bind, Some(Bind { recursive: false }));
    }

    #[test]
    fn later_words_win() {
        let parsed = words("ro,nodev,rw,dev,noexec");
        let parsed = parse(&parsed);
        assert_eq!(parsed.attr.set, MOUNT_ATTR_NOEXEC);
        assert_eq!(parsed.attr.clear, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV);
        assert_eq!((parsed.superblock_set, parsed.superblock_clear), (0, SB_RDONLY));
    }

    #[test]
    fn access_time_is_one_choice() {
        let atime = |line| parse(&words(line)).attr;
        let choice = |mode| AttrChange { set: mode, clear: MOUNT_ATTR__ATIME };
        assert_eq!(atime("noatime,strictatime"), choice(MOUNT_ATTR_STRICTATIME));
        assert_eq!(atime("strictatime,noatime"), choice(MOUNT_ATTR_NOATIME));
        assert_eq!(atime("noatime,relatime"), choice(MOUNT_ATTR_RELATIME));
        assert_eq!(atime("noatime,atime"), AttrChange::default());
        assert_eq!(atime("nostrictatime"), AttrChange::default());
        assert_eq!(atime("strictatime,atime"), choice(MOUNT_ATTR_STRICTATIME));
        assert_eq!(atime("norelatime"), AttrChange::default());
    }

    #[test]
    fn recursive_attributes_are_apart() {
        let options = words("rro,rnosuid,rsuid,rnoatime,ro");
        let parsed = parse(&options);
        assert_eq!(parsed.attr.set, MOUNT_ATTR_RDONLY);
        assert_eq!(parsed.recursive_attr.set, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOATIME);
        assert_eq!(parsed.recursive_attr.clear, MOUNT_ATTR_NOSUID | MOUNT_ATTR__ATIME);
    }

    #[test]
    fn attributes_have_words() {
        for word in ["ro", "nosuid", "nodev", "noexec", "noatime", "strictatime", "nosymfollow"] {
            let options = [Str::new(word)];
            assert_eq!(attr_words(parse(&options).attr.set).collect::<Vec<_>>(), [word]);
        }
        let options = words("nodiratime,noexec,rw,nosuid,relatime");
        let shown: Vec<_> = attr_words(parse(&options).attr.set).collect();
        assert_eq!(shown, ["nosuid", "noexec", "nodiratime"]);
    }

    #[test]
    fn superblock_flags_have_words() {
        let options = words("ro,sync,lazytime,silent,mand,nomand");
        let parsed: Vec<_> = parse(&options).superblock_words().collect();
        assert_eq!(parsed, ["ro", "sync", "lazytime"]);
    }

    #[test]
    fn extensions() {
        let options = words("tmpcopyup,remount,defaults,idmap");
        let parsed = parse(&options);
        assert!(parsed.tmpcopyup && parsed.remount && parsed.data.is_empty());
        let whole = |recursive| Some(IdMap { recursive, ranges: None });
        assert_eq!(parsed.id_map, whole(false));
        assert_eq!(parse(&words("idmap,ridmap")).id_map, whole(true));
        assert_eq!(parse(&words("rbind")).id_map, None);
        let options = words("bind,copy-symlink,src-nofollow,dest-nofollow");
        let parsed = parse(&options);
        assert!(parsed.copy_symlink && parsed.source_nofollow && parsed.destination_nofollow);
        assert!(parsed.data.is_empty());
    }

    #[test]
    fn propagation_words() {
        let rshared = Propagation { kind: MS_SHARED, recursive: true };
        assert_eq!(Propagation::parse("rshared"), Some(rshared));
        assert_eq!(Propagation::parse("ro"), None);
        assert_eq!(Propagation::parse(""), None);
    }
}

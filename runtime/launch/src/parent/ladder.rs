//! The ladder of ways to make init: where one fails for a reason that another one has an answer to, that is tried.
//!
//! | rung | what failed before | what is done instead |
//! |---|---|---|
//! | [`beside_init`] | the cgroup takes no processes, or is gone | born in the cgroup that the container's init has moved to |
//! | [`by_itself`] | a filter refuses clone3(2), and clone(2) puts nobody into a cgroup | init writes itself to its cgroup |
//! | [`by_systemd`] | the caller may not put it there, whose systemd may | born outside; the parent has systemd move it |
//! | [`past_the_limit`] | the intermediate took the last process that the cgroup has room for | born outside, both; the parent moves init, which is not counted then |
//!
//! Each is tried once at most, from the top down.

use alloc::format;
use alloc::vec::Vec;

use cgroup::Cgroup;
use plan::step::{Intermediate, Memory, TimeNamespace};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use sys::clone::CloneFlags;

use super::Parent;
use super::clone::{Born, Way};
use crate::Error;

/// What the plan has a clone be, however it is made.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Namespaces that are made for it.
    pub flags: CloneFlags,
    pub intermediate: Option<Intermediate>,
    pub time: Option<TimeNamespace>,
}

/// One way to make it.
pub(super) struct Attempt {
    pub way: Way,
    pub memory: Memory,
    /// What init comes into its cgroup by, where it is not born there.
    pub procs: Vec<OwnedFd>,
    /// The cgroup to be born in, if it is not the plan's.
    pub beside: Option<Cgroup>,
    /// Who moves it, where it is born outside of its cgroup on v2 and does not go there itself.
    pub moved: Moved,
}

/// Whether the parent moves init to its cgroups once it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// It is born there, or moves itself.
    No,
    /// On v2; to those of v1 it moves itself.
    Unified,
    /// To all of them, so that neither it nor its intermediate moves.
    Everywhere,
}

/// Why an attempt has failed.
pub(super) enum Fell {
    /// By the clone itself.
    Clone(Errno),
    /// Before or after it.
    Other(Error),
}

impl From<sys::Error> for Fell {
    fn from(error: sys::Error) -> Self {
        Self::Other(error.into())
    }
}

/// Changes an attempt that failed into one that may not; false if this rung is no answer to it.
type Rung = fn(&mut Parent<'_>, Wanted, &mut Attempt, &Fell) -> Result<bool, Error>;

const LADDER: [Rung; 4] = [beside_init, by_itself, by_systemd, past_the_limit];

impl Attempt {
    /// The directory that init, or its intermediate, is born in.
    pub fn born_in<'a>(&'a self, own: Option<&'a Cgroup>) -> Option<BorrowedFd<'a>> {
        let is_born_inside = self.way.into_cgroup && self.moved == Moved::No;
        let cgroup = self.beside.as_ref().or(own).filter(|_| is_born_inside);
        cgroup.and_then(Cgroup::dir_fd)
    }
}

impl Parent<'_> {
    /// Makes init in the first way that works.
    pub(super) fn make_init(
        &mut self,
        wanted: Wanted,
        way: Way,
        memory: Memory,
    ) -> Result<(Born, Attempt), Error> {
        let (beside, moved) = (None, Moved::No);
        let mut attempt = Attempt { way, memory, procs: Vec::new(), beside, moved };
        if !way.into_cgroup {
            self.go_after_init(&mut attempt);
        }
        attempt.procs = match self.entrances.take() {
            Some(opened) => opened,
            None => self.open_entrances(way)?,
        };
        let mut rungs = LADDER.into_iter();
        loop {
            let fell = match self.try_clone(wanted, &attempt) {
                Ok(born) => return Ok((born, attempt)),
                Err(fell) => fell,
            };
            loop {
                match rungs.next() {
                    Some(rung) if rung(self, wanted, &mut attempt, &fell)? => break,
                    Some(_) => {}
                    None => return Err(self.in_words(wanted, &attempt, fell)),
                }
            }
        }
    }

    /// Whoever goes to its cgroup itself learns too late that nobody may be there.
    fn go_after_init(&mut self, attempt: &mut Attempt) {
        if self.follows_init() {
            // Of limits in there nothing is known.
            attempt.memory = Memory::Copied;
        }
    }

    #[cold]
    fn in_words(&self, wanted: Wanted, attempt: &Attempt, fell: Fell) -> Error {
        let errno = match fell {
            Fell::Other(error) => return error,
            Fell::Clone(errno) => errno,
        };
        let is_born_inside = attempt.born_in(self.cgroup.as_ref()).is_some();
        let place = self.cgroup.as_ref().and_then(Cgroup::unified_path);
        let object = match (errno, place) {
            (Errno::BUSY, Some(path)) if is_born_inside => return handing_down(path).into(),
            _ if attempt.moved == Moved::Everywhere => "intermediate".into(),
            (Errno::ACCESS, _) if is_born_inside => format!(
                "{:?} into its cgroup (which takes the right to write to cgroup.procs of the nearest cgroup above \
                 both it and the caller's)",
                wanted.at_birth()
            ),
            _ => format!("{:?}", wanted.at_birth()),
        };
        sys::Error::new("clone3", object, errno).into()
    }
}

impl Wanted {
    /// The namespaces that its first process is born in: an intermediate makes them later.
    pub fn at_birth(self) -> CloneFlags {
        if self.intermediate.is_some() { CloneFlags::empty() } else { self.flags }
    }
}

/// The cgroup hands controllers down to those below it and so has no processes itself, or is gone.
fn beside_init(
    parent: &mut Parent<'_>,
    _: Wanted,
    attempt: &mut Attempt,
    fell: &Fell,
) -> Result<bool, Error> {
    let is_closed = matches!(fell, Fell::Clone(Errno::BUSY | Errno::OPNOTSUPP | Errno::NODEV));
    if !is_closed || attempt.born_in(parent.cgroup.as_ref()).is_none() {
        return Ok(false);
    }
    attempt.beside = parent.cgroup_of_init();
    if attempt.beside.is_some() {
        // Of limits in there nothing is known.
        attempt.memory = Memory::Copied;
    }
    Ok(attempt.beside.is_some())
}

/// clone(2), where a filter has no clone3(2), puts nobody into a cgroup: init goes there itself.
fn by_itself(
    parent: &mut Parent<'_>,
    _: Wanted,
    attempt: &mut Attempt,
    fell: &Fell,
) -> Result<bool, Error> {
    let is_refused = matches!(fell, Fell::Clone(Errno::NOSYS | Errno::PERM));
    if !is_refused || attempt.born_in(parent.cgroup.as_ref()).is_none() {
        return Ok(false);
    }
    parent.is_not_born_inside = true;
    attempt.way.into_cgroup = false;
    parent.go_after_init(attempt);
    attempt.procs = parent.open_entrances(attempt.way)?;
    Ok(true)
}

/// A user in a session may not put it there, and the user's systemd may.
fn by_systemd(
    parent: &mut Parent<'_>,
    _: Wanted,
    attempt: &mut Attempt,
    fell: &Fell,
) -> Result<bool, Error> {
    let is_denied = matches!(fell, Fell::Clone(Errno::ACCESS));
    let helps = is_denied && parent.cgroup.as_ref().is_some_and(Cgroup::is_of_user);
    if helps {
        attempt.moved = Moved::Unified;
    }
    Ok(helps)
}

/// There was room for the intermediate in a cgroup, and then none for init: what moves there is not counted against a limit
/// of pids. It takes longer.
fn past_the_limit(
    parent: &mut Parent<'_>,
    wanted: Wanted,
    attempt: &mut Attempt,
    fell: &Fell,
) -> Result<bool, Error> {
    let is_crowded_out = matches!(
        fell,
        Fell::Other(Error::Init { step, errno: Errno::AGAIN, .. }) if step == init::intermediate::CLONE
    );
    let helps = is_crowded_out && parent.may_move(wanted.intermediate);
    if helps {
        attempt.moved = Moved::Everywhere;
    }
    Ok(helps)
}

/// Why nobody can be born in a cgroup. It begins as runc's words do.
#[cold]
fn handing_down(path: &str) -> sys::Error {
    let object = format!(
        "into {path} (it hands controllers down to cgroups below it, and so can have no processes of its own: \
         name another cgroupsPath, as one below it, or take the controllers out of its \
         cgroup.subtree_control)"
    );
    sys::Error::new("unable to apply cgroup configuration: clone3", object, Errno::BUSY)
}

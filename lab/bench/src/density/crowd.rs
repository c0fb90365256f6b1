//! The idle containers of one runtime.

use super::reading::{self, Reading, Share};
use crate::concurrent;
use crate::harness::*;
use crate::held;
use std::os::unix::fs::PermissionsExt;

/// The program of idle containers, which waits until it is killed.
const PROGRAM: &str = "/bin/wait";

/// Its instructions: pause(2) or, where there is none, ppoll(2) without an end, again and again.
#[cfg(target_arch = "x86_64")]
const CODE: [u8; 7] = [0x6a, 0x22, 0x58, 0x0f, 0x05, 0xeb, 0xf9];
#[cfg(target_arch = "aarch64")]
const CODE: [u8; 28] = [
    0x00, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x80, 0xd2, 0x02, 0x00, 0x80, 0xd2, 0x03, 0x00, 0x80, 0xd2,
    0x28, 0x09, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4, 0xfa, 0xff, 0xff, 0x17,
];

/// Returns the program: an ELF header, one segment, and the instructions.
pub(super) fn program() -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const BASE: u64 = 0x40_0000;
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let size = HEADERS + CODE.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    elf.extend(machine.to_le_bytes());
    elf.extend(1_u32.to_le_bytes());
    // The entry; the places of the tables of segments and sections; flags.
    for word in [BASE + HEADERS, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0; 4]);
    // The sizes of this header and of a segment's, one segment, no section.
    elf.extend([64_u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat());
    // PT_LOAD, readable and executable.
    elf.extend([1_u32, 5].map(u32::to_le_bytes).concat());
    elf.extend([0, BASE, BASE, size, size, 0x1000].map(u64::to_le_bytes).concat());
    elf.extend(CODE);
    elf
}

/// Writes the program into the containers' root filesystem.
///
/// # Errors
/// Those of write(2) and chmod(2).
pub(super) fn install(stand: &Stand) -> Result<(), Error> {
    let file = stand.directory.join("rootfs").join(&PROGRAM[1..]);
    fs::write(&file, program()).map_err(Error::at("write", &file))?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&file, mode).map_err(Error::at("chmod", &file))
}

/// A crowd. Its containers are killed and removed when it is dropped.
pub(super) struct Crowd<'a> {
    stand: &'a Stand,
    pub(super) entrant: &'a Entrant,
    change: fn(&mut Value),
    containers: Vec<Container<'a>>,
    /// What the runtime has left beside them.
    beside: Vec<i32>,
    /// The readings around the last growth, and its size.
    grown: (Reading, Reading, usize),
}

impl<'a> Crowd<'a> {
    pub(super) fn new(stand: &'a Stand, entrant: &'a Entrant, change: fn(&mut Value)) -> Self {
        let (containers, beside, grown) = Default::default();
        Self { stand, entrant, change, containers, beside, grown }
    }

    /// Returns the number of containers.
    pub(super) fn size(&self) -> usize {
        self.containers.len()
    }

    /// Starts containers until there are `count`. Returns the limit that was reached before, if any. A runtime that
    /// can't start the first one leaves.
    pub(super) fn grow(
        &mut self,
        count: usize,
        title: &str,
        leave: Option<usize>,
    ) -> Result<Option<String>, Error> {
        if self.entrant.is_out() {
            return Ok(None);
        }
        let known: HashSet<i32> = held::descendants(0).into_iter().collect();
        let had = self.size();
        let is_seen = count >= had + reading::FEWEST;
        // Some runtimes return shortly before the program is executed.
        let moment = || pause(Duration::from_millis(100), &mut || {});
        let settle = || if is_seen { reading::settle() } else { moment() };
        settle()?;
        let before = Reading::take(self.stand);
        let (mut progress, mut limit) = (Progress::new(), None);
        while self.size() < count {
            interrupt::check()?;
            progress.tell(title, self.size(), count);
            limit = reading::limit(leave);
            if limit.is_none() {
                let (stand, entrant) = (self.stand, self.entrant);
                let container = Container::changed(stand, entrant, &[PROGRAM], self.change)?;
                match container.run_detached() {
                    Ok(_) => self.containers.push(container),
                    Err(Error::Out(reason)) if self.size() > 0 => limit = Some(reason),
                    Err(error) => {
                        return self.entrant.attempt(Err(error)).map(|_: Option<()>| None);
                    }
                }
            }
            if let Some(limit) = &mut limit {
                interrupt::check()?;
                *limit = format!("{} ends at {}: {limit}", self.entrant.name, self.size());
                break;
            }
        }
        settle()?;
        let own: HashSet<i32> = self.pids().into_iter().collect();
        let new = held::descendants(0).into_iter();
        self.beside.extend(new.filter(|pid| !own.contains(pid) && !known.contains(pid)));
        self.grown = (before, Reading::take(self.stand), self.size() - had);
        Ok(limit)
    }

    fn pids(&self) -> Vec<i32> {
        self.containers.iter().filter_map(|it| Some(it.pid()?.as_raw_pid())).collect()
    }

    /// Returns what one container holds.
    pub(super) fn share(&self) -> Share {
        reading::share(&self.pids(), &self.beside, &self.grown)
    }

    /// Removes containers until `count` are left.
    pub(super) fn shrink(&mut self, count: usize) -> Result<(), Error> {
        let mut gone = self.containers.split_off(count.min(self.size()));
        for pid in gone.iter().filter_map(Container::pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let ended: Vec<_> = gone.iter().map(Container::exit).collect();
        let width = thread::available_parallelism().map_or(1, usize::from);
        let delete = |(): &mut (), container: &mut Container<'_>| container.delete();
        let (_, deleted) = concurrent::work(vec![(); width], gone.iter_mut(), delete);
        // After an interrupt, the stand removes records and cgroups at once: thousands of commands would take minutes.
        gone.iter().for_each(Container::leave_to_stand);
        for result in ended.into_iter().chain(deleted) {
            self.entrant.attempt(result)?;
        }
        Ok(())
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        let _ = self.shrink(0);
    }
}

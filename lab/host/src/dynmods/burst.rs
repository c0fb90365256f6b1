//! `dayfly host favordynmods auto`: turns favordynmods on while a command runs.
//!
//! Several `auto` may run at once. Each holds a shared lock on a file, and the last one to end turns the option off.
//! The file records whether an `auto` turned the option on, because the option must stay on if it was on before. If an
//! `auto` is killed, its lock is released, and the option is turned off when the next `auto` ends.

use super::State;
use super::switch::{MARK, WANTED, possible, turn};
use crate::facts::Facts;
use crate::layout::Layout;
use report::{Error, interrupt};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

/// A file that is locked while a command begins or ends.
const TURN: &str = "/run/dayfly-favordynmods.lock";

/// Runs a command with favordynmods on, and turns it off afterwards if it was off before. The exit code is the
/// command's, or 128 plus the number of the signal that killed the command.
///
/// # Errors
/// The layout, kernel or host does not allow it; the option could not be turned off again (Linux 6.18); remounting
/// fails; the command cannot be executed.
pub fn auto(facts: &Facts, command: &[String]) -> Result<ExitCode, Error> {
    let [program, arguments @ ..] = command else {
        bail!("no command to run");
    };
    let layout = Layout::of(facts);
    let state = State::of(facts, &layout);
    possible(&layout, &state)?;
    if state.one_way && !state.is_on() {
        return Err(refused!("favordynmods can't be turned on temporarily: since Linux 6.18, it stays in effect until the next boot once it is on")
        .advise(
            "use \"dayfly host favordynmods on --yes\" to turn it on until then; dayfly's own \
             starts don't wait for the moves that it speeds up",
        ));
    }
    // From here on, SIGINT, SIGTERM and SIGHUP are forwarded to the command, and this process turns the option off
    // before it exits.
    let signals = interrupt::streams()?;
    let wanted = Wanted::begin(facts)?;
    let child = Command::new(program).args(arguments).spawn();
    let ended = child
        .map_err(|error| Error::system("execute", program, error))
        .and_then(|child| wait(child, &signals));
    wanted.end(facts)?;
    let ended = ended?;
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Waits for a command, and forwards to it the signals that this process receives.
fn wait(mut child: Child, signals: &[interrupt::Stream]) -> Result<ExitStatus, Error> {
    let failed = |error: Errno| Error::system("wait for", "the command", error);
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(failed)?;
    // If a terminal sent SIGINT, the whole foreground process group has received it, including the command.
    let has_terminal = std::io::stdin().is_terminal();
    loop {
        let mut ready: Vec<PollFd<'_>> = vec![PollFd::new(&pidfd, PollFlags::IN)];
        ready.extend(signals.iter().map(|one| PollFd::new(&one.came, PollFlags::IN)));
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(failed(error)),
        }
        let came: Vec<bool> = ready.iter().map(|one| !one.revents().is_empty()).collect();
        for (signal, _) in signals.iter().zip(&came[1..]).filter(|(_, came)| **came) {
            let _ = (&signal.came).read(&mut [0; 16]);
            if signal.number == Signal::INT.as_raw() && has_terminal {
                continue;
            }
            if let Some(number) = Signal::from_named_raw(signal.number) {
                let _ = pidfd_send_signal(&pidfd, number);
            }
        }
        if came[0] {
            return child.wait().map_err(|error| Error::system("wait for", "the command", error));
        }
    }
}

/// A command's need for the option: a shared lock on [`WANTED`].
struct Wanted(File);

impl Wanted {
    /// Turns the option on, unless it is on already.
    fn begin(facts: &Facts) -> Result<Self, Error> {
        let _turn = Self::take_turn()?;
        let path = Path::new(WANTED);
        let file = open(path)?;
        if !is_on(facts) {
            // The mark is written first. If this process is killed now, the next command knows that a command turned
            // the option on.
            file.write_all_at(MARK, 0).map_err(Error::of("write", path))?;
            turn(facts, true)?;
        }
        flock(&file, FlockOperation::LockShared).map_err(Error::of("lock", path))?;
        Ok(Self(file))
    }

    /// Turns the option off, if no other command needs it and it was off before.
    fn end(self, facts: &Facts) -> Result<(), Error> {
        let _turn = Self::take_turn()?;
        let path = Path::new(WANTED);
        match flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(()),
            Err(error) => return Err(Error::of("lock", path)(error)),
        }
        let was_off = self.0.metadata().map_err(Error::of("read", path))?.len() > 0;
        if was_off && is_on(facts) {
            turn(facts, false)?;
        }
        self.0.set_len(0).map_err(Error::of("write", path))
    }

    /// Waits until no other command is beginning or ending; this takes at most as long as the other command's remount.
    /// Returns the lock.
    fn take_turn() -> Result<File, Error> {
        let path = Path::new(TURN);
        let file = open(path)?;
        flock(&file, FlockOperation::LockExclusive).map_err(Error::of("lock", path))?;
        Ok(file)
    }
}

fn open(path: &Path) -> Result<File, Error> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(Error::of("open", path))
}

fn is_on(facts: &Facts) -> bool {
    State::of(facts, &Layout::of(facts)).is_on()
}

//! `pool`: cgroups kept ready for containers; see [`cgroup::pool`].

use super::error::of_cgroup;
use crate::cgroups::options::Pool;
use cgroup::Hierarchies;
use cgroup::pool::{self, Size};
use report::interrupt::{self, Second};
use report::{Error, Format, Table, say, sayln};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

/// Creates, lists or removes pools.
///
/// # Errors
/// An invalid size; unknown pools; failing system calls.
pub fn pool(command: &Pool) -> Result<(), Error> {
    match command {
        Pool::Create { sizes, count, stay } => {
            let hierarchies = Hierarchies::detect().map_err(of_cgroup)?;
            // All sizes are parsed before the first pool is created.
            let sizes = parsed(sizes)?;
            interrupt::catch(Second::Waits)?;
            let count = *count as usize;
            sizes.iter().try_for_each(|size| fill(&hierarchies, size, count))?;
            if *stay { keep(&hierarchies, sizes, count) } else { Ok(()) }
        }
        Pool::Ls { format } => list(*format),
        Pool::Rm { sizes } => {
            let hierarchies = Hierarchies::detect().map_err(of_cgroup)?;
            let sizes = match sizes.as_slice() {
                [] => pool::pools().map_err(of_cgroup)?.into_iter().map(|pool| pool.size).collect(),
                sizes => parsed(sizes)?,
            };
            for size in sizes {
                let left = pool::drain(&hierarchies, &size).map_err(of_cgroup)?;
                if left > 0 {
                    sayln!("{}: {left} in use go with their containers", size.name());
                }
            }
            Ok(())
        }
    }
}

/// Adds groups to a pool one by one, so that a signal can stop the command in between.
fn fill(hierarchies: &Hierarchies, size: &Size, count: usize) -> Result<(), Error> {
    let mut made = 0;
    for wanted in 0..=count {
        if interrupt::came() {
            return Err(refused!("interrupted: {made} of the pool {} are made", size.name())
                .advise("the same command makes the rest"));
        }
        match pool::fill(hierarchies, size, wanted) {
            Ok(more) => made += more,
            Err(error) => {
                // A pool in which no group could be created is removed.
                let is_empty =
                    |pool: &pool::Pool| pool.size == *size && pool.free + pool.taken == 0;
                if made == 0 && pool::pools().map_err(of_cgroup)?.iter().any(is_empty) {
                    let _ = pool::drain(hierarchies, size);
                }
                return Err(of_cgroup(error));
            }
        }
    }
    sayln!("{}: {made} made", size.name());
    Ok(())
}

/// Replaces the groups that containers have taken, until a signal arrives or the pools are removed.
fn keep(hierarchies: &Hierarchies, mut sizes: Vec<Size>, count: usize) -> Result<(), Error> {
    let signals = interrupt::wakes()?;
    let failed = |errno| Error::system("inotify", cgroup::pool::POOLS, errno);
    let gone = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(failed)?;
    for size in &sizes {
        let flags = WatchFlags::DELETE | WatchFlags::DELETE_SELF | WatchFlags::ONLYDIR;
        inotify::add_watch(&gone, pool::watched(size), flags).map_err(failed)?;
    }
    while !interrupt::came() {
        let mut left = Vec::new();
        for size in sizes {
            match pool::replace(hierarchies, &size, count) {
                Ok(()) => left.push(size),
                Err(cgroup::Error::NoPool { .. }) => {}
                Err(error) => return Err(of_cgroup(error)),
            }
        }
        sizes = left;
        if sizes.is_empty() {
            break;
        }
        let mut fds = [PollFd::new(&gone, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::system("poll", "", errno)),
        }
        // The content of the events is not needed: each round counts the groups in the pools.
        let mut events = [0_u8; 4096];
        while matches!(rustix::io::read(&gone, &mut events), Ok(1..)) {}
    }
    Ok(())
}

fn parsed(sizes: &[String]) -> Result<Vec<Size>, Error> {
    sizes.iter().map(|size| Size::parse(size).map_err(of_cgroup)).collect()
}

fn list(format: Format) -> Result<(), Error> {
    let pools = pool::pools().map_err(of_cgroup)?;
    match format {
        Format::Json => {
            let row = |pool: &pool::Pool| {
                let (size, bytes) = (pool.size.name(), pool.size.bytes());
                json!({ "pool": size, "bytes": bytes, "free": pool.free, "taken": pool.taken })
            };
            sayln!("{}", pools.iter().map(row).collect::<Value>());
        }
        Format::Table => {
            let mut table = Table::new(&["pool", "free", "taken"]);
            for pool in pools {
                let (free, taken) = (pool.free.to_string(), pool.taken.to_string());
                table.row(vec![pool.size.name().to_owned(), free, taken]);
            }
            say!("{table}");
        }
    }
    Ok(())
}

//! `dayfly cgroup`: manages the cgroups of this host.
//!
//! | part | what |
//! |---|---|
//! | [`group`], [`key`], [`setting`] | groups, and the names and values of files, in both interfaces |
//! | [`journal`] | changes that are undone unless all succeed |
//! | [`cgroup_plan`], [`apply`], [`devices`], [`snapshot`], [`persist`] | cgroup plans: files that describe groups |
//! | [`pinning`], [`swap`], [`memory`] | CPUs and memory nodes |
//! | [`list`], [`values`], [`create`], [`tasks`], [`remove`], [`top`] | the other commands |
//! | [`pool`] | groups kept ready for containers |
//! | [`options`] | the command line |

pub mod apply;
pub mod cgroup_plan;
pub mod create;
pub mod devices;
mod error;
pub mod group;
pub mod journal;
pub mod key;
pub mod list;
pub mod memory;
pub mod options;
pub mod persist;
pub mod pinning;
pub mod pool;
pub mod remove;
pub mod setting;
pub mod snapshot;
pub mod swap;
pub mod tasks;
pub mod top;
pub mod usage;
pub mod values;

use self::options::CgroupCommand;
use report::Error;
use std::process::ExitCode;

/// Executes `command`. Returns the exit code of a comparison, or 0 after any other command.
///
/// # Errors
/// Any failure of the command.
pub fn execute(command: CgroupCommand) -> Result<ExitCode, Error> {
    match command {
        CgroupCommand::Ls(options) => list::list(&options)?,
        CgroupCommand::Get(options) => values::get(&options)?,
        CgroupCommand::Set(options) => values::set(&options)?,
        CgroupCommand::Create(options) => create::create(&options)?,
        CgroupCommand::Classify(options) => tasks::classify(&options)?,
        CgroupCommand::Exec(options) => tasks::exec(&options)?,
        CgroupCommand::Rm(options) => remove::remove(&options)?,
        CgroupCommand::Freeze(options) => tasks::freeze(&options.groups)?,
        CgroupCommand::Thaw(options) => tasks::thaw(&options.groups)?,
        CgroupCommand::Kill(options) => tasks::kill(&options)?,
        CgroupCommand::Top(options) => top::top(&options)?,
        CgroupCommand::Record(options) => top::record(&options)?,
        CgroupCommand::Pin(options) => pinning::pin(&options)?,
        CgroupCommand::Swap(options) => swap::swap(&options)?,
        CgroupCommand::MoveMemory(options) => memory::move_memory(&options)?,
        CgroupCommand::Apply(options) => apply::apply(&options)?,
        CgroupCommand::Diff(options) => return apply::diff(&options),
        CgroupCommand::Snapshot(options) => snapshot::snapshot(&options)?,
        CgroupCommand::Persist(options) => persist::persist(&options)?,
        CgroupCommand::Unpersist(options) => persist::unpersist(&options)?,
        CgroupCommand::Pool(options) => pool::pool(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

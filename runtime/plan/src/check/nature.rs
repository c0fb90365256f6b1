//! The kinds of init's steps, for rules that apply to all steps of one kind.
//!
//! Each `match` here names every step. So the compiler rejects a new step until it is assigned a kind, and no rule can
//! overlook the step.

use sys::clone::CloneFlags;

use crate::step::{InitStep, ParentStep};

/// The kind of a step of init.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nature<'a> {
    /// Opens a mount source of the host.
    Source,
    /// Mounts something at this path in the root filesystem.
    Mount(&'a [u8]),
    /// Creates files in this directory of the root filesystem, or the directory itself.
    Entry(&'a [u8]),
    /// Attaches the root filesystem itself, so the mount has no path in the root filesystem.
    RootMount,
    /// Makes the root filesystem the root.
    Root,
    /// Makes the root of an existing container the root.
    RootOfContainer,
    /// Makes a path masked or read-only.
    Cover,
    /// Needs privileges that init loses when it changes the user, and is none of the above.
    Privileged,
    /// None of the above. Rules about such a step select it by name.
    Other,
}

impl<'a> Nature<'a> {
    /// Returns the kind of a step.
    pub fn of(step: &'a InitStep) -> Self {
        match step {
            InitStep::CloneTree(_) | InitStep::CloneDevice(_) => Self::Source,

            InitStep::AttachRoot { .. } => Self::RootMount,
            InitStep::AttachTree { target, .. } => Self::Mount(target.path.to_bytes()),
            InitStep::AttachBind(bind) => Self::Mount(bind.target.path.to_bytes()),
            InitStep::MountFs(mount) => Self::Mount(mount.target.path.to_bytes()),

            InitStep::MakeDevices { directory, .. } | InitStep::MakeLinks { directory, .. } => {
                Self::Entry(directory.to_bytes())
            }
            InitStep::MakeDirectory { path } => Self::Entry(path.to_bytes()),

            InitStep::PivotRoot | InitStep::ChangeRoot { .. } | InitStep::EnterRoot => Self::Root,
            InitStep::EnterRootOf { .. } => Self::RootOfContainer,
            InitStep::JoinProcess { kinds, .. } if kinds.contains(CloneFlags::NEWNS) => {
                Self::RootOfContainer
            }

            InitStep::MaskPath { .. } | InitStep::ReadonlyPath { .. } => Self::Cover,

            InitStep::JoinCgroups
            | InitStep::JoinNamespace { .. }
            | InitStep::JoinNetwork
            | InitStep::BecomeRoot
            | InitStep::Unshare(_)
            | InitStep::MakeTree { .. }
            | InitStep::LoopbackUp
            | InitStep::SetHostname(_)
            | InitStep::SetDomainname(_)
            | InitStep::OpenConsole { .. }
            | InitStep::FreezeTmpfs { .. }
            | InitStep::OpenMount { .. }
            | InitStep::Reconfigure { .. }
            | InitStep::SetMountAttr { .. }
            | InitStep::WriteSysctl { .. }
            | InitStep::SetScheduler(_)
            | InitStep::SetIoPriority(_)
            | InitStep::SetMemoryPolicy { .. } => Self::Privileged,

            InitStep::RunOn(_)
            | InitStep::RunOnEveryCpu
            | InitStep::OpenProc
            | InitStep::JoinProcess { .. }
            | InitStep::AwaitAdmission
            | InitStep::EnterTime { .. }
            | InitStep::Undumpable
            | InitStep::LabelKeys(_)
            | InitStep::JoinKeyring { .. }
            | InitStep::NewSession
            | InitStep::DetachPropagation
            | InitStep::AwaitHooks
            | InitStep::RunHooks { .. }
            | InitStep::LimitResources(_)
            | InitStep::SetPersonality(_)
            | InitStep::SetUmask(_)
            | InitStep::LimitCapabilities { .. }
            | InitStep::ChangeDirectory { .. }
            | InitStep::ChangeUser { .. }
            | InitStep::VerifyDirectory
            | InitStep::SetCapabilities(_)
            | InitStep::NoNewPrivileges
            | InitStep::ApplyProfile(_)
            | InitStep::LabelProcess(_)
            | InitStep::FindProgram { .. }
            | InitStep::CloseFds { .. }
            | InitStep::AnnounceReady
            | InitStep::AwaitCommit
            | InitStep::ReleaseDescriptors { .. }
            | InitStep::AwaitStart
            | InitStep::LoadSeccomp { .. }
            | InitStep::HandOverListener
            | InitStep::BecomeReaper
            | InitStep::StandIn
            | InitStep::PassRequests
            | InitStep::Exec { .. } => Self::Other,
        }
    }

    /// Returns whether the step mounts something.
    pub const fn is_mount(self) -> bool {
        matches!(self, Self::Mount(_) | Self::RootMount)
    }

    /// Returns whether the step creates something in the root filesystem.
    pub const fn is_filling(self) -> bool {
        self.is_mount() || matches!(self, Self::Entry(_))
    }

    /// Returns the path at which the step creates something in the root filesystem.
    pub const fn place(self) -> Option<&'a [u8]> {
        match self {
            Self::Mount(path) | Self::Entry(path) => Some(path),
            _ => None,
        }
    }
}

/// Returns whether the parent opens or creates a mount source of the host in this step.
pub const fn is_source(step: &ParentStep) -> bool {
    match step {
        ParentStep::CloneTree(_)
        | ParentStep::MakeTree { .. }
        | ParentStep::CloneDevice(_)
        | ParentStep::MakeNodes(_)
        | ParentStep::MapLayers { .. }
        | ParentStep::OpenLayers
        | ParentStep::MakeUpper
        | ParentStep::AssembleRootfs
        | ParentStep::DetachLayers
        | ParentStep::CopyLayers => true,

        ParentStep::Undumpable
        | ParentStep::OpenProc
        | ParentStep::LeaveOutPins
        | ParentStep::RequireModule(_)
        | ParentStep::MakeUserNamespace { .. }
        | ParentStep::OpenNamespace { .. }
        | ParentStep::OpenRoot { .. }
        | ParentStep::ConnectConsole { .. }
        | ParentStep::CreateCgroup
        | ParentStep::EnterPidNamespace { .. }
        | ParentStep::EnterNamespace { .. }
        | ParentStep::RunOn(_)
        | ParentStep::Clone { .. }
        | ParentStep::ReleaseScope { .. }
        | ParentStep::AwaitScope(_)
        | ParentStep::MakeNetwork
        | ParentStep::MoveNetDevices { .. }
        | ParentStep::MapIds(_)
        | ParentStep::MapOwnId(_)
        | ParentStep::MapIdsThrough(_)
        | ParentStep::VerifyIds(_)
        | ParentStep::LimitResources(_)
        | ParentStep::Admit
        | ParentStep::AdjustOomScore(_)
        | ParentStep::InheritOomScore(_)
        | ParentStep::RestoreOomScore
        | ParentStep::EnterResctrl
        | ParentStep::RecordBirth
        | ParentStep::RunHooks
        | ParentStep::SendListener(_)
        | ParentStep::AwaitReady
        | ParentStep::Commit
        | ParentStep::AwaitExec => false,
    }
}

//! Passes a seccomp listener to its agent (runtime-spec, config-linux.md, "The Container Process State").
//!
//! Init loads the filter and reports the number of the listener's descriptor. The parent duplicates the listener and
//! sends it to the agent with the state of the container. As in runc, this is part of `create`: a missing agent is
//! reported before the container's program runs. The filter applies to init only, not to the parent's system calls.
//!
//! Once the filter is loaded, each system call of init may have to wait for the agent, also those of startContainer
//! hooks. The only exception is the write(2) that reports the number.

use alloc::format;
use alloc::string::String;

use init::step::StateText;
use serde_json::Value;
use spec::Process;

use crate::builder::Builder;
use crate::path::c_string;
use crate::step::{Agent, ParentStep};
use crate::{Error, process};

/// The agent of a running container's filter, and the data sent to it.
#[derive(Debug, Clone, Copy)]
pub struct ExecAgent<'a> {
    /// The agent's socket: `listenerPath`.
    pub socket: &'a str,
    /// `listenerMetadata`, or empty.
    pub metadata: &'a str,
    /// The pid of the container's init.
    pub init: i32,
    /// See [`StateText::head`].
    pub state_head: &'a str,
}

/// Adds the steps of init and of the parent that load a new container's filter and send its listener to the agent.
///
/// # Errors
/// Fails if the profile names no agent.
pub fn compile(
    builder: &mut Builder,
    process: &Process<'_>,
    filter: &seccomp::Program,
    profile: &str,
) -> Result<(), Error> {
    let profile = seccomp::Profile::parse(profile)?;
    let (socket, metadata) = profile.listener();
    add(builder, process, filter, agent(socket, metadata, "creating", None)?);
    Ok(())
}

/// Adds the steps of [`compile`] for a process that joins a container; returns the constant part of the container's
/// state.
///
/// # Errors
/// Fails if the profile names no agent.
pub fn compile_exec(
    builder: &mut Builder,
    process: &Process<'_>,
    filter: &seccomp::Program,
    to: Option<ExecAgent<'_>>,
) -> Result<String, Error> {
    let ExecAgent { socket, metadata, init, state_head } = to.ok_or_else(no_agent)?;
    add(builder, process, filter, agent(socket, metadata, "running", Some(init))?);
    Ok(state_head.into())
}

fn add(builder: &mut Builder, process: &Process<'_>, filter: &seccomp::Program, agent: Agent) {
    process::compile_filter(builder, process, filter);
    builder.parent(ParentStep::SendListener(agent));
}

fn agent(
    socket: &str,
    metadata: &str,
    status: &'static str,
    init: Option<i32>,
) -> Result<Agent, Error> {
    match socket {
        "" => Err(no_agent()),
        _ => Ok(Agent { socket: c_string(socket)?, metadata: metadata.into(), status, init }),
    }
}

fn no_agent() -> Error {
    Error::config("seccomp listenerPath is not set")
}

impl Agent {
    /// Returns the message for the agent as JSON: the container process state (runtime-spec) of process `pid`.
    pub fn message(&self, state: &StateText<'_>, pid: i32) -> String {
        let metadata = match self.metadata.as_str() {
            "" => String::new(),
            text => format!(",\"metadata\":{}", Value::from(text)),
        };
        format!(
            "{{\"ociVersion\":{},\"fds\":[\"seccompFd\"],\"pid\":{pid}{metadata},\"state\":{}{}}}",
            Value::from(spec::VERSION),
            state.head(),
            StateText::tail(self.status, self.init.unwrap_or(pid)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn the_message_is_what_the_specification_shows() {
        let annotations = BTreeMap::from([("myKey".into(), "my\"Value".into())]);
        let state = crate::state::state("c1", "/containers/redis", &annotations).unwrap();
        let mut agent = Agent {
            socket: c"/run/agent".into(),
            metadata: "MKNOD=\"/dev/null\"".into(),
            status: "creating",
            init: None,
        };
        let parse = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
        let message = parse(agent.message(&state, 4422));
        let expected = serde_json::json!({
            "ociVersion": spec::VERSION, "fds": ["seccompFd"], "pid": 4422,
            "metadata": "MKNOD=\"/dev/null\"",
            "state": {
                "ociVersion": spec::VERSION, "id": "c1", "status": "creating", "pid": 4422,
                "bundle": "/containers/redis", "annotations": { "myKey": "my\"Value" },
            },
        });
        assert_eq!(message, expected);
        agent.metadata.clear();
        agent.init = Some(7);
        let message = parse(agent.message(&state, 4422));
        assert!(message.get("metadata").is_none());
        assert_eq!((&message["pid"], &message["state"]["pid"]), (&4422.into(), &7.into()));
    }
}

//! What is asked of systemd (org.freedesktop.systemd1(5)).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::{Instance, Property, Unit};
use crate::Error;
use crate::dbus::{Bus, Call, Fault, Message, Value};

/// How long systemd may take for one call or one job.
const PATIENCE: Duration = Duration::from_secs(30);

const SYSTEMD: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

/// The interface of all objects' properties.
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// What calls are about that are about no unit.
const USER_INSTANCE: &str = "user instance";

/// systemd's answer to a job that did what it should.
const DONE: &str = "done";

/// A connection to systemd.
#[derive(Debug)]
pub(crate) struct Manager {
    bus: Bus,
}

impl Manager {
    /// Connects to the systemd that a unit belongs to.
    pub fn connect(unit: &Unit) -> Result<Self, Error> {
        Self::to(&unit.instance).map_err(|fault| failed("connect", &unit.name, fault))
    }

    /// Connects to a user's systemd.
    pub fn of(instance: &Instance) -> Result<Self, Error> {
        Self::to(instance).map_err(|fault| failed("connect", USER_INSTANCE, fault))
    }

    fn to(instance: &Instance) -> Result<Self, Fault> {
        let bus = match instance {
            Instance::System => Bus::system(PATIENCE),
            Instance::SystemAt(bus) | Instance::User { bus, .. } => Bus::connect(bus, PATIENCE),
        };
        Ok(Self { bus: bus? })
    }

    /// Makes a transient unit and waits until it is there. One of that name that failed is taken out of
    /// the way.
    ///
    /// # Errors
    /// [`Error::Systemd`]; [`Error::Job`] if it does not come up.
    pub fn start(&mut self, unit: &Unit, properties: &[Property]) -> Result<(), Error> {
        let call = "StartTransientUnit";
        let mut retried = false;
        loop {
            let arguments = [
                Value::text(&unit.name),
                Value::text("replace"),
                list(properties),
                Value::Array("(sa(sv))".to_string(), Vec::new()),
            ];
            match self.job(unit, call, arguments.into()) {
                Ok(result) if result == DONE => return Ok(()),
                Ok(result) => {
                    self.reset(unit);
                    return Err(Error::Job { unit: unit.name.clone(), result });
                }
                Err(fault) if fault.is_answer("UnitExists") && !retried => {
                    self.reset(unit);
                    retried = true;
                }
                Err(fault) => return Err(failed(call, &unit.name, fault)),
            }
        }
    }

    /// Stops a unit and forgets that it may have failed. One that is not there is fine.
    ///
    /// # Errors
    /// [`Error::Systemd`]
    pub fn stop(&mut self, unit: &Unit) -> Result<(), Error> {
        let arguments = [Value::text(&unit.name), Value::text("replace")];
        match self.job(unit, "StopUnit", arguments.into()) {
            Ok(_) => {}
            Err(fault) if fault.is_answer("NoSuchUnit") => return Ok(()),
            Err(fault) => return Err(failed("StopUnit", &unit.name, fault)),
        }
        self.reset(unit);
        Ok(())
    }

    /// Changes properties of a unit, until it ends.
    ///
    /// # Errors
    /// [`Error::Systemd`]
    pub fn set(&mut self, unit: &Unit, properties: &[Property]) -> Result<(), Error> {
        let call = "SetUnitProperties";
        let arguments = [Value::text(&unit.name), Value::Bool(true), list(properties)];
        let result = self.call(MANAGER, call, arguments.into());
        result.map(drop).map_err(|fault| failed(call, &unit.name, fault))
    }

    /// Moves a process into the cgroup of a unit.
    ///
    /// # Errors
    /// [`Error::Systemd`]
    pub fn attach(&mut self, unit: &Unit, pid: u32) -> Result<(), Error> {
        let call = "AttachProcessesToUnit";
        let pids = Value::Array("u".to_string(), [Value::Uint32(pid)].into());
        let arguments = [Value::text(&unit.name), Value::text("/"), pids];
        let result = self.call(MANAGER, call, arguments.into());
        result.map(drop).map_err(|fault| failed(call, &unit.name, fault))
    }

    /// The cgroup of systemd itself.
    ///
    /// # Errors
    /// [`Error::Systemd`]
    pub fn cgroup(&mut self) -> Result<String, Error> {
        let call = "Get ControlGroup";
        let answer = self.property("ControlGroup");
        let answer = answer.map_err(|fault| failed(call, USER_INSTANCE, fault))?;
        match answer.variant_text() {
            Some(path) => Ok(path.to_string()),
            None => Err(failed(call, USER_INSTANCE, Fault::Malformed("the cgroup is no text"))),
        }
    }

    /// systemd's version.
    ///
    /// # Errors
    /// [`Error::Systemd`]
    pub fn version(&mut self, unit: &Unit) -> Result<u32, Error> {
        let answer = self.property("Version");
        let answer = answer.map_err(|fault| failed("Get Version", &unit.name, fault))?;
        // Such as `252.39-1~deb12u1`, or `v257`.
        let text = answer.variant_text().unwrap_or_default().trim_start_matches('v');
        let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().map_err(|_| {
            failed("Get Version", &unit.name, Fault::Malformed("the version is no number"))
        })
    }

    /// Calls for a job and waits for its result. systemd tells its end by a signal.
    fn job(&mut self, unit: &Unit, member: &str, arguments: Vec<Value>) -> Result<String, Fault> {
        // A unit's name has no quotes.
        self.bus.subscribe(&format!(
            "type='signal',sender='{SYSTEMD}',path='{OBJECT}',interface='{MANAGER}',\
             member='JobRemoved',arg2='{}'",
            unit.name
        ))?;
        let answer = self.call(MANAGER, member, arguments)?;
        let job = answer.text().ok_or(Fault::Malformed("no job in the answer"))?;
        self.bus.signal(|signal| removed(signal, job))
    }

    fn reset(&mut self, unit: &Unit) {
        // Mostly there was nothing to reset.
        let _ = self.call(MANAGER, "ResetFailedUnit", [Value::text(&unit.name)].into());
    }

    /// A property of systemd itself.
    fn property(&mut self, name: &str) -> Result<Message, Fault> {
        self.call(PROPERTIES, "Get", [Value::text(MANAGER), Value::text(name)].into())
    }

    fn call(
        &mut self,
        interface: &str,
        member: &str,
        arguments: Vec<Value>,
    ) -> Result<Message, Fault> {
        self.bus.call(&Call { destination: SYSTEMD, path: OBJECT, interface, member, arguments })
    }
}

/// The result of `job`, if the signal says that it is over: JobRemoved(id, job, unit, result).
fn removed(signal: &Message, job: &str) -> Option<String> {
    if signal.interface != MANAGER || signal.member != "JobRemoved" || signal.signature != "uoss" {
        return None;
    }
    let mut body = signal.body();
    body.u32()?;
    let is_ours = body.string()? == job;
    body.string()?;
    let result = body.string()?;
    is_ours.then(|| result.to_string())
}

fn list(properties: &[Property]) -> Value {
    let pair = |property: &Property| {
        let value = Value::Variant(Box::new(property.value.clone()));
        Value::Struct([Value::text(&property.name), value].into())
    };
    Value::Array("(sv)".to_string(), properties.iter().map(pair).collect())
}

fn failed(call: &'static str, unit: &str, fault: Fault) -> Error {
    Error::Systemd { call, unit: unit.to_string(), fault }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;

//! Tasks of the first agent.

use hearth::model::id::AgentId;
use hearth::model::task::{Missed, Overlap, TaskHome, TaskOrigin};
use hearth::model::task_command::{NewTask, TaskCommand};
use hearth::model::{Input, Millis};

use super::World;

/// A task of the first agent: once after this many seconds, or repeatedly.
pub(crate) fn new(world: &World, after: u64, every: Option<&str>) -> NewTask {
    NewTask {
        agent: AgentId::new(1),
        home: TaskHome::Maintenance,
        prompt: "Water the plants".to_owned(),
        script: None,
        reply: None,
        first: Some(world.now().wall.plus(Millis::seconds(after)).to_string()),
        recurrence: every.map(str::to_owned),
        missed: Missed::default(),
        overlap: Overlap::default(),
        origin: TaskOrigin::Operator,
        allow: Vec::new(),
    }
}

pub(crate) fn add(new: NewTask) -> Input {
    Input::Task(TaskCommand::Add(Box::new(new)))
}

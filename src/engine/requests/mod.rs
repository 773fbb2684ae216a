//! What agents ask of the host: questions to people, changes of themselves, new agents.

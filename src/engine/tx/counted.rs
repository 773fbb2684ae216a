//! Words of what an input says, counted before its transaction.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::input::Input;
use crate::model::mailbox::{Answer, Collection, Record, Said};
use crate::model::request::RequestedAction;
use crate::search::Words;
use crate::state::recall::source::{self, SaidText};

/// The words of texts.
#[derive(Debug, Clone, Default)]
pub struct CountedWords(HashMap<SaidText, Arc<Words>>);

impl CountedWords {
    /// Counts the words of everything that an input says.
    #[must_use]
    pub fn of(input: &Input) -> Self {
        let mut counted = Self::default();
        match input {
            Input::Inbound(event) => counted.add(source::of_event(event)),
            Input::Collected(collection) => counted.add_all(collection),
            _ => {}
        }
        counted
    }

    /// The words of a text, counted now if they were not before.
    pub(crate) fn get(&self, text: &SaidText) -> Arc<Words> {
        self.0.get(text).map_or_else(|| Arc::new(text.words()), Arc::clone)
    }

    fn add(&mut self, text: SaidText) {
        let words = Arc::new(text.words());
        self.0.insert(text, words);
    }

    fn add_all(&mut self, collection: &Collection) {
        for found in &collection.found {
            match &found.record {
                Record::Said(said) => self.add_said(said),
                Record::End { answers, .. } => answers.iter().for_each(|answer| {
                    if let Answer::Read(said) = answer {
                        self.add_said(said);
                    }
                }),
                _ => {}
            }
        }
    }

    fn add_said(&mut self, said: &Said) {
        if matches!(said.action, RequestedAction::Say | RequestedAction::Edit(_)) {
            let files = said.files.iter().map(|file| source::file_name(&file.kept));
            self.add(source::of_answer_text(&said.text, files));
        }
    }
}

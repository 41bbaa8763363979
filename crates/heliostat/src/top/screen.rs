//! What is on the screen, and what keys do to it.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::sample::{Sample, Seen};
use super::worker::{Told, What, Wish};

/// How often it can be looked.
const INTERVALS: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// A list to choose from.
#[derive(Clone, Debug)]
pub(super) struct Picker {
    /// Of which array.
    name: String,
    pub(super) what: What,
    pub(super) choices: Vec<String>,
    pub(super) active: String,
    pub(super) chosen: usize,
}

/// What a key asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    Quit,
    /// Something else is shown from now on: it is to be looked at at once.
    Look,
    Wish(Wish),
}

/// What is on the screen.
#[derive(Debug)]
pub(super) struct Screen {
    names: Vec<String>,
    index: usize,
    now: Option<Sample>,
    seen: Option<Seen>,
    /// What was wanted and is not to be had, until a key is pressed.
    pub(super) refusal: Option<String>,
    /// What is wrong at the moment.
    pub(super) trouble: Option<String>,
    pub(super) picker: Option<Picker>,
    pub(super) shows_help: bool,
    pub(super) is_paused: bool,
    pub(super) has_colours: bool,
    pub(super) interval: Duration,
}

impl Screen {
    /// Of the arrays of these names, of which there is one at least.
    pub(super) fn new(names: Vec<String>, interval: Duration, has_colours: bool) -> Self {
        Self {
            names,
            index: 0,
            now: None,
            seen: None,
            refusal: None,
            trouble: None,
            picker: None,
            shows_help: false,
            is_paused: false,
            has_colours,
            interval,
        }
    }

    /// The array that is shown.
    pub(super) fn name(&self) -> &str {
        &self.names[self.index]
    }

    pub(super) const fn sample(&self) -> Option<&Sample> {
        self.now.as_ref()
    }

    pub(super) const fn seen(&self) -> Option<&Seen> {
        self.seen.as_ref()
    }

    /// Which array it is of how many, and how often it is looked at.
    pub(super) fn corner(&self) -> String {
        let which = match self.names.len() {
            1 => String::new(),
            count => format!("{} of {count}, ", self.index + 1),
        };
        let pause = if self.is_paused { "paused" } else { "every" };
        match self.is_paused {
            true => format!("{which}{pause}"),
            false => format!("{which}{pause} {:?}", self.interval),
        }
    }

    /// What the worker has to say.
    pub(super) fn on_told(&mut self, told: Told) {
        match told {
            Told::Looked(name, _) if name != self.name() => {}
            Told::Looked(_, Ok(sample)) => {
                self.seen = Some(Seen::between(self.now.as_ref(), &sample));
                self.now = Some(*sample);
                self.trouble = None;
            }
            Told::Looked(_, Err(trouble)) => self.trouble = Some(format!("{trouble} (trying on)")),
            Told::Listed(name, ..) if name != self.name() => {}
            Told::Listed(name, what, Ok(text)) => self.picker = Picker::of(name, what, &text),
            Told::Listed(_, _, Err(refusal)) | Told::Set(Err(refusal)) => {
                self.refusal = Some(refusal);
            }
            Told::Set(Ok(())) => {}
        }
    }

    /// What a key asks for.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most keys mean nothing here"
    )]
    pub(super) fn on_key(&mut self, key: KeyEvent) -> Asked {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c')) {
            return Asked::Quit;
        }
        self.refusal = None;
        if self.shows_help {
            self.shows_help = false;
            return Asked::Nothing;
        }
        if self.picker.is_some() {
            return self.on_picker_key(key.code);
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Asked::Quit,
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('+' | '=') => return self.step(true),
            KeyCode::Char('-') => return self.step(false),
            KeyCode::Char('p') => return self.wish(What::Policy),
            KeyCode::Char('s') => return self.wish(What::Scheduler),
            KeyCode::Tab | KeyCode::Right => return self.turn(1),
            KeyCode::BackTab | KeyCode::Left => return self.turn(self.names.len() - 1),
            _ => {}
        }
        Asked::Nothing
    }

    fn wish(&self, what: What) -> Asked {
        Asked::Wish(Wish::List(self.name().to_owned(), what))
    }

    /// Looks less often, or more, from now on.
    fn step(&mut self, is_longer: bool) -> Asked {
        let mut others = INTERVALS.into_iter();
        let next = match is_longer {
            true => others.find(|other| *other > self.interval),
            false => others.rfind(|other| *other < self.interval),
        };
        self.interval = next.unwrap_or(self.interval);
        match self.is_paused {
            true => Asked::Nothing,
            false => Asked::Look,
        }
    }

    /// Shows the array so many places further on.
    fn turn(&mut self, by: usize) -> Asked {
        if self.names.len() < 2 {
            return Asked::Nothing;
        }
        self.index = (self.index + by) % self.names.len();
        self.now = None;
        self.seen = None;
        self.trouble = None;
        Asked::Look
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most keys mean nothing here"
    )]
    fn on_picker_key(&mut self, code: KeyCode) -> Asked {
        let Some(picker) = &mut self.picker else {
            return Asked::Nothing;
        };
        let last = picker.choices.len() - 1;
        match code {
            KeyCode::Up | KeyCode::Char('k') => picker.chosen = picker.chosen.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => picker.chosen = last.min(picker.chosen + 1),
            KeyCode::Home => picker.chosen = 0,
            KeyCode::End => picker.chosen = last,
            KeyCode::Enter => {
                let choice = picker.choices[picker.chosen].clone();
                let wish = Wish::Set(picker.name.clone(), picker.what, choice);
                self.picker = None;
                return Asked::Wish(wish);
            }
            KeyCode::Esc | KeyCode::Char('q') => self.picker = None,
            _ => {}
        }
        Asked::Nothing
    }
}

impl Picker {
    /// Of a text as `pid [queue] devid:1`; nothing where it has nothing in it.
    fn of(name: String, what: What, text: &str) -> Option<Self> {
        let bare = |word: &str| word.trim_matches(['[', ']']).to_owned();
        let choices: Vec<String> = text.split_whitespace().map(bare).collect();
        let chosen = text
            .split_whitespace()
            .position(|word| word.starts_with('['))
            .unwrap_or(0);
        let active = choices.get(chosen)?.clone();
        Some(Self {
            name,
            what,
            choices,
            active,
            chosen,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::{Asked, Screen};
    use crate::top::testing::sample;
    use crate::top::worker::{Told, What, Wish};

    fn screen(names: &[&str]) -> Screen {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Screen::new(names, Duration::from_secs(1), true)
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Asked {
        screen.on_key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_policy_is_chosen_from_the_list() {
        let mut screen = screen(&["a", "b"]);
        assert_eq!(press(&mut screen, KeyCode::Tab), Asked::Look);
        let list = Wish::List("b".to_owned(), What::Policy);
        assert_eq!(press(&mut screen, KeyCode::Char('p')), Asked::Wish(list));
        let text = "pid [queue:x=1] devid:1".to_owned();
        let listed = |what, text| Told::Listed("b".to_owned(), what, Ok(text));
        screen.on_told(listed(What::Policy, text));
        press(&mut screen, KeyCode::Down);
        press(&mut screen, KeyCode::Down);
        let set = Wish::Set("b".to_owned(), What::Policy, "devid:1".to_owned());
        assert_eq!(press(&mut screen, KeyCode::Enter), Asked::Wish(set));
        assert!(screen.picker.is_none());
        screen.on_told(listed(What::Scheduler, "none [fair]".to_owned()));
        assert_eq!(press(&mut screen, KeyCode::Esc), Asked::Nothing);
        assert!(screen.picker.is_none());
        // An empty list is none.
        screen.on_told(listed(What::Scheduler, String::new()));
        assert!(screen.picker.is_none());
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Asked::Quit);
    }

    #[test]
    fn an_answer_that_comes_too_late_is_not_shown_of_another_array() {
        let mut screen = screen(&["a", "b"]);
        press(&mut screen, KeyCode::Tab);
        screen.on_told(Told::Looked("a".to_owned(), Err("gone".to_owned())));
        assert_eq!(screen.trouble, None);
        screen.on_told(Told::Looked("b".to_owned(), Err("gone".to_owned())));
        assert!(screen.trouble.is_some());
        press(&mut screen, KeyCode::BackTab);
        assert_eq!((screen.name(), &screen.trouble), ("a", &None));
    }

    #[test]
    fn a_list_is_of_the_array_that_was_asked() {
        let mut screen = screen(&["a", "b"]);
        let listed = || {
            let text = "pid [queue]".to_owned();
            Told::Listed("a".to_owned(), What::Policy, Ok(text))
        };
        press(&mut screen, KeyCode::Char('p'));
        press(&mut screen, KeyCode::Tab);
        screen.on_told(listed());
        assert!(screen.picker.is_none());
        press(&mut screen, KeyCode::Tab);
        screen.on_told(listed());
        assert_eq!(press(&mut screen, KeyCode::Tab), Asked::Nothing);
        let set = Wish::Set("a".to_owned(), What::Policy, "queue".to_owned());
        assert_eq!(press(&mut screen, KeyCode::Enter), Asked::Wish(set));
    }

    #[test]
    fn a_refusal_stays_until_a_key_is_pressed() {
        let mut screen = screen(&["a"]);
        screen.on_told(Told::Set(Err("invalid argument".to_owned())));
        let looked = sample(1, 1, &[("x", "in-sync")], &[]);
        screen.on_told(Told::Looked("a".to_owned(), Ok(Box::new(looked))));
        assert_eq!(screen.refusal.as_deref(), Some("invalid argument"));
        press(&mut screen, KeyCode::Char('x'));
        assert_eq!(screen.refusal, None);
    }

    #[test]
    fn what_is_paused_stays_as_it_is_but_for_another_array() {
        let mut screen = screen(&["a", "b"]);
        assert_eq!(press(&mut screen, KeyCode::Char('-')), Asked::Look);
        press(&mut screen, KeyCode::Char(' '));
        assert_eq!(press(&mut screen, KeyCode::Char('-')), Asked::Nothing);
        assert_eq!(press(&mut screen, KeyCode::Tab), Asked::Look);
    }

    #[test]
    fn intervals_have_ends() {
        let mut screen = screen(&["a"]);
        for _ in 0..20 {
            press(&mut screen, KeyCode::Char('-'));
        }
        assert_eq!(screen.interval, Duration::from_millis(100));
        for _ in 0..20 {
            press(&mut screen, KeyCode::Char('+'));
        }
        assert_eq!(screen.interval, Duration::from_secs(10));
        assert_eq!(press(&mut screen, KeyCode::Tab), Asked::Nothing);
    }
}

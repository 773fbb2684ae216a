//! Values.

use std::collections::HashMap;

use crate::number::Number;
use crate::text::TextForm;

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<T> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number as text.
    Number(Number),
    Text(T),
    /// Values in order.
    Array(Vec<Self>),
    /// Members in order.
    Object(Object<T>),
}

impl<T: TextForm> Json<T> {
    /// A text of Unicode.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    #[must_use]
    pub fn integer(value: i64) -> Self {
        Self::Number(value.into())
    }

    #[must_use]
    pub fn count(value: usize) -> Self {
        Self::Number(value.into())
    }

    /// A 64-bit float.
    #[must_use]
    pub fn float(value: f64) -> Self {
        Self::Number(Number::of_float(value))
    }

    /// An object of these members, whose names are all different.
    #[must_use]
    pub fn object<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl Json<String> {
    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Replaces each text in it, at any depth. Names stay.
    pub fn each_text(&mut self, change: &impl Fn(&str) -> String) {
        match self {
            Self::Text(text) => *text = change(text),
            Self::Array(items) => items.iter_mut().for_each(|item| item.each_text(change)),
            Self::Object(object) => object.iter_mut().for_each(|member| member.value.each_text(change)),
            Self::Null | Self::Bool(_) | Self::Number(_) => {}
        }
    }
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Member<T> {
    pub name: T,
    pub value: Json<T>,
}

/// Members in the order in which they were written. All names are different.
#[derive(Debug, Clone, PartialEq)]
pub struct Object<T>(Vec<Member<T>>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Object<T> {
    /// Members whose names are all different.
    pub(crate) const fn of(members: Vec<Member<T>>) -> Self {
        Self(members)
    }

    /// Whether it has no members.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its members, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Member<T>> {
        self.0.iter()
    }

    /// Its members, in order. Their names must not change.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Member<T>> {
        self.0.iter_mut()
    }

    /// The value with this name.
    #[must_use]
    pub fn get<N: ?Sized>(&self, name: &N) -> Option<&Json<T>>
    where
        T: PartialEq<N>,
    {
        self.iter().find(|member| member.name == *name).map(|member| &member.value)
    }

    /// Removes the member of this name and returns its value.
    pub fn remove<N: ?Sized>(&mut self, name: &N) -> Option<Json<T>>
    where
        T: PartialEq<N>,
    {
        let at = self.iter().position(|member| member.name == *name)?;
        Some(self.0.remove(at).value)
    }
}

impl<T: TextForm> Object<T> {
    /// Sets a value at the position of its name, or at the end if the name is new.
    pub fn set(&mut self, name: impl Into<T>, value: Json<T>) {
        let name = name.into();
        match self.iter_mut().find(|member| member.name == name) {
            Some(member) => member.value = value,
            None => self.0.push(Member { name, value }),
        }
    }

    /// The member with this name as an object. Any other value is replaced by an empty object and returned as the
    /// second result.
    pub fn object_mut(&mut self, name: &str) -> (Option<&mut Self>, Option<Json<T>>) {
        let name = T::from(name);
        let mut was = None;
        if !matches!(self.get(&name), Some(Json::Object(_))) {
            was = self.get(&name).cloned();
            self.set(name.clone(), Json::Object(Self::default()));
        }
        let object = self.iter_mut().find_map(|member| match &mut member.value {
            Json::Object(object) if member.name == name => Some(object),
            _ => None,
        });
        (object, was)
    }

    /// Adds the members of another object whose names are missing here, also within objects that both have.
    pub fn add_missing(&mut self, more: Self) {
        if more.is_empty() {
            return;
        }
        let known: HashMap<&T, usize> = (0..).zip(self.iter()).map(|(place, member)| (&member.name, place)).collect();
        let places: Vec<_> = more.iter().map(|member| known.get(&member.name).copied()).collect();
        for (member, place) in more.0.into_iter().zip(places) {
            match (place.and_then(|place| self.0.get_mut(place)), member.value) {
                (None, value) => self.0.push(Member { name: member.name, value }),
                (Some(Member { value: Json::Object(known), .. }), Json::Object(more)) => known.add_missing(more),
                (Some(_), _) => {}
            }
        }
    }
}

impl<T> FromIterator<(T, Json<T>)> for Object<T> {
    /// Members whose names are all different.
    fn from_iter<I: IntoIterator<Item = (T, Json<T>)>>(members: I) -> Self {
        Self(members.into_iter().map(|(name, value)| Member { name, value }).collect())
    }
}

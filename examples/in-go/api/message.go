// Package api has the Message's types, for which kubebuilder would generate DeepCopy functions.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the Message's.
var GroupVersion = schema.GroupVersion{Group: "myorg.dev", Version: "v1"}

// MessageSpec is what the user declares.
type MessageSpec struct {
	Text            string `json:"text,omitempty"`
	IntervalSeconds int32  `json:"intervalSeconds,omitempty"`
}

// MessageStatus is what the operator observed.
type MessageStatus struct {
	Phase              string             `json:"phase,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	PodName            string             `json:"podName,omitempty"`
	NodeName           string             `json:"nodeName,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Message is a text that a Pod prints.
type Message struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MessageSpec   `json:"spec,omitempty"`
	Status MessageStatus `json:"status,omitempty"`
}

// MessageList is a list of Messages.
type MessageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Message `json:"items"`
}

// AddToScheme makes the types known.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Message{}, &MessageList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// DeepCopyInto copies the status.
func (s *MessageStatus) DeepCopyInto(out *MessageStatus) {
	*out = *s
	if s.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(s.Conditions))
		for i := range s.Conditions {
			s.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
}

// DeepCopy copies the status.
func (s *MessageStatus) DeepCopy() *MessageStatus {
	out := &MessageStatus{}
	s.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies the Message.
func (m *Message) DeepCopyObject() runtime.Object { return m.DeepCopy() }

// DeepCopy copies the Message.
func (m *Message) DeepCopy() *Message {
	out := &Message{TypeMeta: m.TypeMeta, Spec: m.Spec}
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	m.Status.DeepCopyInto(&out.Status)
	return out
}

// DeepCopyObject copies the list.
func (l *MessageList) DeepCopyObject() runtime.Object {
	out := &MessageList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Message, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return out
}

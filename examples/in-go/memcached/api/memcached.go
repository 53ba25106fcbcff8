// Package api has the Memcached's types, with the status of the tutorial.
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the Memcached's.
var GroupVersion = schema.GroupVersion{Group: "cache.example.com", Version: "v1beta1"}

// MemcachedSpec is what the user declares.
type MemcachedSpec struct {
	Replicas int32  `json:"replicas,omitempty"`
	Limits   Limits `json:"limits,omitzero"`
}

// Limits is what each node may use at most.
type Limits struct {
	Memory      int32 `json:"memory,omitempty"`
	Connections int32 `json:"connections,omitempty"`
}

// MemcachedStatus is what the operator observed.
type MemcachedStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Memcached is a number of nodes.
type Memcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemcachedSpec   `json:"spec,omitempty"`
	Status MemcachedStatus `json:"status,omitempty"`
}

// MemcachedList is a list of Memcacheds.
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Memcached `json:"items"`
}

// AddToScheme makes the types known.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Memcached{}, &MemcachedList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	scheme.AddKnownTypeWithName(AlphaGroupVersion.WithKind("Memcached"), &AlphaMemcached{})
	metav1.AddToGroupVersion(scheme, AlphaGroupVersion)
	return nil
}

// DeepCopyObject copies the Memcached.
func (m *Memcached) DeepCopyObject() runtime.Object { return m.DeepCopy() }

// DeepCopy copies the Memcached.
func (m *Memcached) DeepCopy() *Memcached {
	out := &Memcached{TypeMeta: m.TypeMeta, Spec: m.Spec}
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	m.Status.deepCopyInto(&out.Status)
	return out
}

func (s *MemcachedStatus) deepCopyInto(out *MemcachedStatus) {
	if s.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(s.Conditions))
		for i := range s.Conditions {
			s.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
}

// DeepCopyObject copies the list.
func (l *MemcachedList) DeepCopyObject() runtime.Object {
	out := &MemcachedList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Memcached, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return out
}

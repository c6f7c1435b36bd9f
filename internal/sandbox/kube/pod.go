package kube

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/ralph-action/internal/sandbox"
	"github.com/org/ralph-action/internal/sandbox/kube/podshim"
)

// The marks of a pod, by which a person, a policy and Start know whose it is.
const (
	// LabelSandbox is on every pod of this package.
	LabelSandbox = "ralph-bot/sandbox"
	// labelInstallation says which bot's it is, where several use one namespace.
	labelInstallation = "ralph-bot/installation"
	annotationRunDir  = "ralph-bot/run-dir"
	annotationStart   = "ralph-bot/start"
)

const (
	mainContainer = "command"
	initContainer = "program"
	// stopSlack is what the shim gets beyond the grace to kill and record, and the bot
	// to fetch what it recorded.
	stopSlack = 5 * time.Second
	// deadlineSlack is how long after its time a start may wait for a bot to fetch what
	// came of it. Then the cluster ends the pod, also where no bot is left to.
	deadlineSlack = 24 * time.Hour
	// diskSlack is what a pod may take beside what the shim counts: the transcript, and
	// what is written while the shim counts.
	diskSlack = 1 << 30
	// What a pod asks for: more is there where others leave it.
	memoryAsked = 256 << 20
	cpuAsked    = 100 // thousandths
)

// kinds are those of the mounts, for the first container.
func kinds(mounts []sandbox.Mount) ([]string, error) {
	var all []string
	for _, m := range mounts {
		info, err := os.Stat(m.Host)
		switch {
		case err != nil:
			return nil, fmt.Errorf("mount: %w", err)
		case info.IsDir():
			all = append(all, "dir")
		case info.Mode().IsRegular():
			all = append(all, "file")
		default:
			return nil, fmt.Errorf("mount: %s is neither a file nor a directory", m.Host)
		}
	}
	return all, nil
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(dir) || !info.IsDir() {
		return fmt.Errorf("%q is not an absolute directory", dir)
	}
	return nil
}

// pod is the pod of a start. There is nothing in it that is not for everybody's eyes.
func (s *Sandbox) pod(name string, spec sandbox.Spec) (*corev1.Pod, error) {
	mounted, err := kinds(spec.Mounts)
	if err != nil {
		return nil, err
	}
	if spec.Image == "" {
		return nil, errors.New("spec names no image")
	}
	memory := cmp.Or(max(spec.MemoryBytes, 0), DefaultMemoryBytes)
	grace := int64((cmp.Or(max(spec.Grace, 0), sandbox.DefaultGrace) + stopSlack) / time.Second)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(name), Labels: map[string]string{LabelSandbox: "true"},
			Annotations: map[string]string{annotationStart: name, annotationRunDir: spec.RunDir},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			Hostname:                      "sandbox",
			// Nobody is to be asked.
			DNSPolicy: corev1.DNSNone,
			DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(DefaultUID)), RunAsGroup: new(int64(DefaultUID)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			InitContainers: []corev1.Container{{
				Name: initContainer, Image: s.opts.BotImage, ImagePullPolicy: corev1.PullIfNotPresent,
				Args: append([]string{"shim", "pod", "install"}, mounted...), SecurityContext: confined(),
				Resources: limits(memoryAsked, memoryAsked, 0, diskSlack),
				VolumeMounts: []corev1.VolumeMount{
					{Name: "program", MountPath: podshim.ProgramVolume}, {Name: "disk", MountPath: podshim.DiskVolume},
					{Name: "memory", MountPath: podshim.MemoryVolume},
				},
			}},
			Containers: []corev1.Container{{
				Name: mainContainer, Image: spec.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{podshim.Program, "shim", "pod", "serve"}, WorkingDir: "/", SecurityContext: confined(),
				Resources: limits(min(memoryAsked, memory), memory, spec.CPUs, disk(spec)),
				VolumeMounts: []corev1.VolumeMount{
					{Name: "program", MountPath: filepath.Dir(podshim.Program), ReadOnly: true},
					{Name: "disk", MountPath: podshim.WorkDir, SubPath: "workspace"},
					{Name: "disk", MountPath: podshim.RunDir, SubPath: "run"},
					{Name: "memory", MountPath: podshim.HomeDir, SubPath: "home"},
					{Name: "memory", MountPath: "/tmp", SubPath: "tmp"},
				},
			}},
			Volumes: []corev1.Volume{
				empty("program", corev1.StorageMediumDefault, diskSlack), empty("disk", corev1.StorageMediumDefault, disk(spec)),
				empty("memory", corev1.StorageMediumMemory, memory/2),
			},
		},
	}
	main := &p.Spec.Containers[0]
	if spec.CacheDir != "" {
		main.VolumeMounts = append(main.VolumeMounts,
			corev1.VolumeMount{Name: "disk", MountPath: podshim.CacheDir, SubPath: "cache"})
	}
	for i, m := range spec.Mounts {
		main.VolumeMounts = append(main.VolumeMounts,
			corev1.VolumeMount{Name: "disk", MountPath: m.Target, SubPath: podshim.MountName(i)})
	}
	if s.opts.Installation != "" {
		p.Labels[labelInstallation] = s.opts.Installation
	}
	if s.opts.RuntimeClass != "" {
		p.Spec.RuntimeClassName = &s.opts.RuntimeClass
	}
	if s.opts.UserNamespaces {
		p.Spec.HostUsers = new(false)
	}
	if spec.WallTimeout > 0 {
		p.Spec.ActiveDeadlineSeconds = new(int64((spec.WallTimeout + deadlineSlack) / time.Second))
	}
	return p, nil
}

// disk is what a pod may write, 0 for no limit.
func disk(spec sandbox.Spec) int64 {
	if spec.DiskBytes <= 0 {
		return 0
	}
	return spec.DiskBytes + cmp.Or(max(spec.OutputLimit, 0), sandbox.DefaultOutputLimit) + diskSlack
}

func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func limits(asked, memory int64, cpus float64, disk int64) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceMemory: quantity(asked), corev1.ResourceCPU: *resource.NewMilliQuantity(cpuAsked, resource.DecimalSI),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: quantity(memory)},
	}
	if cpus > 0 {
		r.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(max(int64(cpus*1000), cpuAsked), resource.DecimalSI)
	}
	if disk > 0 {
		r.Limits[corev1.ResourceEphemeralStorage] = quantity(disk)
		r.Requests[corev1.ResourceEphemeralStorage] = quantity(min(disk, diskSlack))
	}
	return r
}

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

func empty(name string, medium corev1.StorageMedium, size int64) corev1.Volume {
	dir := &corev1.EmptyDirVolumeSource{Medium: medium}
	if size > 0 {
		dir.SizeLimit = new(quantity(size))
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: dir}}
}

package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm/gres"
)

// TestMachines: what each machine's pod registers, and the lines that say where it is.
func TestMachines(t *testing.T) {
	for _, c := range []struct {
		machine string
		gres    string
		lines   []string
		notes   []string
	}{
		{"8-h200", "gpu:nvidia_h200:8", []string{"Name=gpu Type=nvidia_h200 File=/dev/nvidia[0-7] Flags=nvidia_gpu_env"}, nil},
		{"1-h200-vm", "gpu:nvidia_h200:1", []string{"Name=gpu Type=nvidia_h200 File=/dev/nvidia0 Flags=nvidia_gpu_env"}, nil},
		{"2-of-8", "gpu:nvidia_h200:2", []string{"Name=gpu Type=nvidia_h200 File=/dev/nvidia3,/dev/nvidia5 Flags=nvidia_gpu_env"}, nil},
		{
			"pci-order", "gpu:nvidia_h200:8",
			[]string{"Name=gpu Type=nvidia_h200 File=/dev/nvidia7,/dev/nvidia6,/dev/nvidia5,/dev/nvidia4,/dev/nvidia3,/dev/nvidia2,/dev/nvidia1,/dev/nvidia0 Flags=nvidia_gpu_env"},
			nil,
		},
		{"mig", "gpu:nvidia_h200:1,gpu:nvidia_a100_mig:2", []string{
			"Name=gpu Type=nvidia_h200 File=/dev/nvidia0 Flags=nvidia_gpu_env",
			"Name=gpu Type=nvidia_a100_mig MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13 Flags=nvidia_gpu_env",
			"Name=gpu Type=nvidia_a100_mig MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap93,/dev/nvidia-caps/nvidia-cap94 Flags=nvidia_gpu_env",
		}, nil},
		{"mig-only", "gpu:nvidia_a100_mig:1", []string{
			"Name=gpu Type=nvidia_a100_mig MultipleFiles=/dev/nvidia1,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22 Flags=nvidia_gpu_env",
		}, nil},
		{"mig-none", "", nil, []string{"/dev/nvidia1 is divided (MIG), and none of its instances is in /dev/nvidia-caps: it does not count"}},
		{"4-of-8-mi300x", "gpu:amd_instinct_mi300x_oam:4", []string{
			"Name=gpu Type=amd_instinct_mi300x_oam File=/dev/dri/renderD128,/dev/dri/renderD136,/dev/dri/renderD144,/dev/dri/renderD152 Flags=amd_gpu_env",
		}, nil},
		{"mi300x-without-kfd", "", nil, nil},
		{"amd-nameless", "gpu:gfx942:2", []string{"Name=gpu Type=gfx942 File=/dev/dri/renderD129,/dev/dri/renderD128 Flags=amd_gpu_env"}, nil},
		{"mixed", "gpu:nvidia_h200:1,gpu:nvidia_a100-sxm4-80gb:1,gpu:amd_instinct_mi210:1", []string{
			"Name=gpu Type=nvidia_h200 File=/dev/nvidia0",
			"Name=gpu Type=nvidia_a100-sxm4-80gb File=/dev/nvidia1",
			"Name=gpu Type=amd_instinct_mi210 File=/dev/dri/renderD128",
		}, nil},
		{"none", "", nil, nil},
		{"bare", "gpu:3", []string{"Name=gpu File=/dev/nvidia[0-1],/dev/nvidia10 Flags=nvidia_gpu_env"}, []string{"/dev/nvidia2 is not a character device: it does not count"}},
		{"garbage", "gpu:nvidia:1,gpu:quadro_rtx_pcie_8_000_x:1", []string{
			"Name=gpu Type=nvidia File=/dev/nvidia6 Flags=nvidia_gpu_env",
			"Name=gpu Type=quadro_rtx_pcie_8_000_x File=/dev/nvidia7 Flags=nvidia_gpu_env",
		}, []string{
			"/proc/driver/nvidia/gpus/0000:01:00.0/information: there is no number in Device Minor: the GPU does not count",
			"/proc/driver/nvidia/gpus/0000:02:00.0/information: there is no number in Device Minor: the GPU does not count",
			"/proc/driver/nvidia/gpus/0000:03:00.0/information: the driver excludes it: the GPU does not count",
			"cannot read /proc/driver/nvidia/gpus/0000:04:00.0/information: the GPU does not count",
			"/dev/nvidia5 is not a character device: it does not count",
			"/dev/nvidia1: the driver knows no such GPU: it does not count",
			"/dev/nvidia8: the driver knows no such GPU: it does not count",
		}},
	} {
		t.Run(c.machine, func(t *testing.T) {
			f := machine(t, c.machine)
			found := f.Find()
			p, err := found.Plan(Choice{Auto: true})
			require.NoError(t, err)
			assert.Equal(t, c.gres, p.Gres.String())
			assert.Equal(t, c.lines, p.Lines)
			assert.Equal(t, c.notes, found.Notes)
			assert.Empty(t, f.Missing(p.Files))
		})
	}
}

func TestNoMachine(t *testing.T) {
	assert.Equal(t, Found{}, NewFS("/nonexistent").Find())
}

// A device that vanishes after it was found is named.
func TestMissing(t *testing.T) {
	f := machine(t, "mig-only")
	p, err := f.Find().Plan(Choice{Auto: true})
	require.NoError(t, err)
	require.NoError(t, os.Remove(f.at("/dev/nvidia-caps/nvidia-cap22")))
	assert.Equal(t, "/dev/nvidia-caps/nvidia-cap22", f.Missing(p.Files))
	require.NoError(t, os.WriteFile(f.at("/dev/nvidia-caps/nvidia-cap22"), nil, 0o600))
	assert.Equal(t, "/dev/nvidia-caps/nvidia-cap22", f.Missing(p.Files), "a file is no device")
}

// Types are those of Slurm's AutoDetect=nvml, which users know.
func TestTypeName(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA H200":                     "nvidia_h200",
		"NVIDIA A100-SXM4-80GB":           "nvidia_a100-sxm4-80gb",
		"Tesla V100-SXM2-16GB":            "tesla_v100-sxm2-16gb",
		"NVIDIA GeForce RTX 4090":         "nvidia_geforce_rtx_4090",
		"Aqua Vanjaram [Instinct MI300X]": "aqua_vanjaram_instinct_mi300x",
		" (:=,) ":                         "",
		"größe":                           "gr_e",
		strings.Repeat("x", 100):          strings.Repeat("x", 63),
	} {
		assert.Equal(t, want, typeName(product))
	}
}

// FuzzInformation: whatever a driver writes, the type is one that Slurm takes.
func FuzzInformation(f *testing.F) {
	f.Add("Model: \t NVIDIA H200\nDevice Minor: \t 7\nGPU Excluded:\t No\n")
	f.Add("Device Minor: 99999999999999999999\nModel: \xff:,()=\n")
	f.Add("vendor_id 4098\ndrm_render_minor 128\ngfx_target_version 90402\n")
	f.Fuzz(func(t *testing.T, text string) {
		card, fault := parseInformation(text)
		if fault != "" {
			require.Equal(t, nvidiaCard{}, card)
		}
		require.True(t, card.minor >= 0 && card.minor < 1<<20)
		amd, isGPU := parseProperties(text)
		require.True(t, !isGPU || amd.minor > 0 && amd.minor < 1<<20)
		if card.model != "" {
			g, err := gres.Parse("gpu:" + card.model + ":1")
			require.NoError(t, err)
			require.Equal(t, g, gres.Recorded(g.String()+"(S:0-1)"))
		}
	})
}

// TestMemory: AMD's driver tells it, NVIDIA's does not, and what cannot be read is none.
func TestMemory(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for minor, text := range map[int][2]string{128: {"206141652992\n", "298844160\n"}, 129: {"206141652992\n", "x\n"}, 130: {"-1\n", "1\n"}} {
		dir := fmt.Sprintf("sys/class/drm/renderD%d/device/mem_info_vram_", minor)
		write(dir+"total", text[0])
		write(dir+"used", text[1])
	}
	f := NewFS(root)
	for minor, want := range map[int]Memory{128: {206141652992, 298844160}, 129: {}, 130: {}, 131: {}} {
		assert.Equal(t, want, f.Memory(GPU{Vendor: AMD, Files: []string{fmt.Sprintf("/dev/dri/renderD%d", minor)}}), minor)
	}
	assert.Zero(t, f.Memory(GPU{Vendor: NVIDIA, Files: []string{"/dev/dri/renderD128"}}))
	assert.False(t, f.Present(GPU{Files: []string{"/dev/nvidia0"}}))
	assert.True(t, NewFS("/").Present(GPU{Files: []string{"/dev/null"}}))
}
